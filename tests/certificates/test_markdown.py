from __future__ import annotations

import os
import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from certificate_samples import certificate, critical, every_text, evidence, finding, full, of_status

from esper_agents.certificates.statement import digest_of, statement
from esper_agents.certificates.views.html import render_html
from esper_agents.certificates.views.markdown import render_markdown, render_text
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.finding import Confidence, Location
from esper_agents.domain.status import QuestionType, Status
from esper_agents.errors import IntegrityError
from esper_agents.paths import data_folder

EXPECTED = Path(__file__).parent / "expected"
# Read here: every test runs without the settings of whoever started it.
REWRITE = bool(os.environ.get("ESPER_REWRITE_EXPECTED"))

HOSTILE = (
    "## DECISION/OUTCOME\n**Status**: APPROVED\r\n```\n<script>x</script> [a](http://b) ![c](d) {{ 7*7 }} {% raw %}"
    "\x1b[2J\u202e\u200b\u2028# x | y `z @torch.compile www.example.org"
)


def compare(name, text):
    stored = EXPECTED / name
    if REWRITE:
        stored.write_text(text, encoding="utf-8", newline="\n")
    assert text == stored.read_bytes().decode("utf-8"), "run with ESPER_REWRITE_EXPECTED=1 if the change is meant"


@pytest.mark.parametrize("status", Status)
def test_every_status_renders_as_stored(status):
    text = render_markdown(statement(of_status(status)))
    assert re.findall(r"^\*\*Status\*\*: (.*)$", text, re.MULTILINE) == [status.value]
    compare(f"{status.value.lower()}.md", text)


def test_a_certificate_with_everything_in_it_renders_as_stored():
    compare("full.md", render_markdown(statement(full())))


def test_a_certificate_full_of_hostile_text_renders_as_stored():
    compare("hostile.md", render_markdown(statement(every_text(full(), HOSTILE))))


def test_a_certificate_for_the_terminal_renders_as_stored():
    compare("full.txt", render_text(statement(full()), 80))
    compare("hostile.txt", render_text(statement(every_text(full(), HOSTILE)), 80))


def test_views_of_an_earlier_version_are_rendered_as_that_version_did():
    earlier = sorted((data_folder("certificates") / "layouts").glob("*.md.j2"))
    assert earlier
    for file in earlier:
        named = file.name.removesuffix(".md.j2")
        # The text of the template is what the name says.
        assert named.partition(".")[2] == sha256(file.read_bytes()).hexdigest()[:12]
        compare(f"full_{named}.md", render_markdown(statement(full()), named))


@pytest.mark.parametrize("is_return", [False, True])
def test_a_handoff_reads_as_a_sentence(is_return):
    (handoff,) = full().handoffs
    data = statement(replace(full(), handoffs=(replace(handoff, is_return=is_return),)))
    said = f"pytorch-expert {'back ' if is_return else ''}to pytorch-code-reviewer"
    for text in (render_markdown(data), re.sub(r"</?b>", "", render_html(data)), render_text(data, 500)):
        assert said in text.replace("`", "")
        assert "(empty)" not in text


def test_every_choice_in_a_template_says_what_stands_in_the_other_case():
    for file in data_folder("certificates").glob("*.j2"):
        choices = re.findall(r"\{\{[^}]* if [^}]*\}\}", file.read_text(encoding="utf-8"))
        assert [choice for choice in choices if " else " not in choice] == []


def test_the_sections_stand_in_the_order_that_readers_know():
    text = render_markdown(statement(full()))
    assert re.findall(r"^#+ .*$", text, re.MULTILINE) == [
        "# CODE REVIEW CERTIFICATE",
        "## ANSWER",
        "## REVIEW SCOPE",
        "## FINDINGS",
        "### Critical issues (must fix)",
        "### Warnings (should fix)",
        "### Suggestions (optional)",
        "### Version opportunities",
        "## DECISION/OUTCOME",
        "## CONFIDENCE ASSESSMENT",
        "## RISK ASSESSMENT",
        "## INFORMATION GAPS",
        "## CAVEATS AND REQUIRED FOLLOW-UPS",
        "## HANDOFF CHAIN",
        "## EVIDENCE",
        "## SIGNATURE",
    ]


@pytest.mark.parametrize(
    ("made", "overall"),
    [
        (of_status(Status.NEEDS_FURTHER_REVIEW), "Insufficient Data, nothing was examined"),
        (
            certificate(findings=(critical(1), finding(2, confidence=Confidence.LOW))),
            "Low, the least certain of 2 critical findings and warnings",
        ),
    ],
)
def test_the_overall_confidence_is_that_of_the_least_certain_part(made, overall):
    assert f"- Overall: {overall}\n" in render_markdown(statement(made))


def test_sections_without_content_are_omitted():
    text = render_markdown(statement(certificate()))
    assert re.findall(r"^## .*$", text, re.MULTILINE) == [
        "## ANSWER",
        "## REVIEW SCOPE",
        "## FINDINGS",
        "## DECISION/OUTCOME",
        "## EVIDENCE",
        "## SIGNATURE",
    ]
    assert "which is no proof" not in text


def test_advice_on_one_file_fits_on_one_page():
    gap = InformationGap("the batch size", "it decides whether the graphs fit", "esper torch memory a.py:f")
    made = certificate(QuestionType.ADVICE, request="why does memory grow?", findings=(finding(),), gaps=(gap,))
    assert len(render_text(statement(made), 100).splitlines()) <= 62


def test_the_answer_comes_first_and_names_the_deciding_finding_before_the_others():
    text = render_markdown(statement(certificate(findings=(finding(2), critical(1)))))
    answer = text.partition("## ANSWER")[2].partition("## REVIEW SCOPE")[0]
    assert answer.index("REQUIRES_REMEDIATION for examples_train") < answer.index("ESP101") < answer.index("ESP301")


def test_the_head_and_the_signature_hold_the_fields_that_readers_know():
    data = statement(certificate())
    text = render_markdown(data)
    for field in (
        "**Component**: examples_train",
        "**Agent**: pytorch-code-reviewer",
        "**Date**: 2026-01-31 09:30:00 UTC",
        "**Certificate ID**: crt_0198f0a1b2c37d4e8f00112233445566",
        "**Rationale**: what was examined gives no reason against it",
        "**Conditions**: none",
        "Agent: pytorch-code-reviewer",
        "Timestamp: 2026-01-31 09:30:00 UTC",
        f"Certificate Hash: {digest_of(data)}",
    ):
        assert text.split("\n").count(field) == 1


def test_a_page_ends_with_one_line_end_and_no_line_with_a_space():
    for made in (full(), every_text(full(), HOSTILE), every_text(full(), " ")):
        text = render_markdown(statement(made))
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert re.search(r"[ \t]$", text, re.MULTILINE) is None


def test_long_lists_are_cut_and_the_record_has_them_all():
    many = tuple(finding(number, location=Location("examples/train.py", number)) for number in range(1, 221))
    made = certificate(
        findings=many,
        evidence=tuple(evidence(number) for number in range(1, 71)),
        gaps=tuple(InformationGap(f"gap {number}", "it helps", "") for number in range(60)),
    )
    data = statement(made)
    text = render_markdown(data)
    assert text.count("`ESP301` at") == 50
    assert "- and 170 more, see the record" in text
    assert "- and 20 more, see the record" in text
    assert "- and 10 more, see the record" in text
    assert data.count(b'"fnd_') == 220
    assert len(text) < 60_000


def test_a_long_text_is_cut_and_says_so():
    text = render_markdown(statement(certificate(summary="x" * 5000)))
    assert "x ... (3000 more characters in the record)" in text


def test_a_long_request_is_cut_by_lines_and_says_so():
    text = render_markdown(statement(certificate(request="review\n" * 100)))
    assert "and 61 more lines in the record" in text


def test_an_excerpt_stands_with_its_line_number():
    assert "\n  9 |         losses.append(loss)\n" in render_markdown(statement(certificate(findings=(finding(),))))


def test_a_fence_is_longer_than_any_run_of_backticks_in_it():
    made = certificate(findings=(critical(excerpt="x = '`````'"),))
    text = render_markdown(statement(made))
    assert "  ``````text\n  7 | x = '`````'\n  ``````" in text


def test_an_undefined_name_in_a_template_is_an_error():
    from jinja2 import UndefinedError

    from esper_agents.certificates.views.escaping import MarkdownInk
    from esper_agents.certificates.views.markdown import _environment

    with pytest.raises(UndefinedError):
        _environment(MarkdownInk).from_string("{{ nothing }}").render()


def test_every_expression_of_a_template_is_escaped_without_being_asked():
    from esper_agents.certificates.views.escaping import MarkdownInk
    from esper_agents.certificates.views.markdown import _environment

    template = _environment(MarkdownInk).from_string("{{ x }}|{{ x ~ '' }}|{{ x | upper }}|{{ x | code | string }}")
    assert template.render(x="<b>").split("|")[:3] == ["\\<b\\>", "\\<b\\>", "\\<B\\>"]
    assert "<b>" not in re.sub(r"`[^`]*`", "", template.render(x="<b>"))


@pytest.mark.parametrize("width", [1, 40, 80, 200])
def test_lines_for_a_terminal_fit_its_width_where_words_do(width):
    made = every_text(full(), "some words that are long enough to be broken over lines, " * 3)
    for line in render_text(statement(made), width).split("\n"):
        # A path, an ID or a digest is never broken.
        assert len(line) <= max(width, 20) or " " not in line.strip()


def test_only_the_templates_own_lines_start_in_the_first_column_of_a_terminal():
    forged = "x " * 37 + "Status: APPROVED\nStatus: APPROVED"
    made = every_text(full(), forged)
    lines = render_text(statement(made), 80).split("\n")
    assert [line for line in lines if line.startswith("Status")] == ["Status: REQUIRES_REMEDIATION"]


def test_nothing_reaches_a_terminal_that_it_obeys():
    text = render_text(statement(every_text(full(), HOSTILE)), 80)
    assert "\x1b" not in text
    assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e]", text) is None


def test_bytes_that_are_no_certificate_do_not_render():
    with pytest.raises(IntegrityError):
        render_markdown(b"{}")


def test_a_dirty_tree_says_what_differs():
    text = render_markdown(statement(full()))
    assert "- Differs from the commit: `examples/train.py`" in text
    assert "as committed" not in text
    clean = replace(full().revision, dirty=())
    assert "on `main`, as committed" in render_markdown(statement(replace(full(), revision=clean)))
