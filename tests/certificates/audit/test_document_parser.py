"""Reading what anybody may have typed: dates, citations, statuses, parts; and nothing that a text can break."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest
from freehand import KNOWN, NAME, NOW, certificate
from hypothesis import given, settings
from hypothesis import strategies as st

from esper_agents.certificates.audit.checks import load_checks
from esper_agents.certificates.audit.citation_parser import cited_in
from esper_agents.certificates.audit.date_spans import has_template_form, moment_in_name, read_moment
from esper_agents.certificates.audit.document import DocumentKind, DocumentSection
from esper_agents.certificates.audit.document_parser import looks_like_certificate, read_document
from esper_agents.certificates.audit.files import MOST_BYTES, MOST_LINES
from esper_agents.certificates.audit.problem import quoted
from esper_agents.certificates.audit.status import read_status
from esper_agents.certificates.audit.subject import AuditContext, Subject
from esper_agents.domain.status import Status

EXPECTED = Path(__file__).parents[1] / "expected"


@pytest.mark.parametrize(
    ("line", "cited"),
    [
        ("`a.py:12`", [("a.py", 12, 12)]),
        ("a.py:12-20 and b.py:3", [("a.py", 12, 20), ("b.py", 3, 3)]),
        ("a.py:12\u201320", [("a.py", 12, 20)]),
        ("`src/a.py`:12", [("src/a.py", 12, 12)]),
        ("a.py:12:5: error", [("a.py", 12, 12)]),
        ("a.py:3,7", [("a.py", 3, 3), ("a.py", 7, 7)]),
        ("a.py line 12", [("a.py", 12, 12)]),
        ("a.py, line 12, 2026", [("a.py", 12, 12)]),
        ("`a.py` (lines 3-9, 12-14)", [("a.py", 3, 9), ("a.py", 12, 14)]),
        ("**a.py**: Lines 3 to 9", [("a.py", 3, 9)]),
        ("lines 3-9 of `a.py`", [("a.py", 3, 9)]),
        ("[here](src/a.py#L3-L9)", [("src/a.py", 3, 9)]),
        ("a.py#L12", [("a.py", 12, 12)]),
        ("C:\\work\\a.py:3", [("\\work\\a.py", 3, 3)]),
        ("tests/test_a.py::test_b", [("tests/test_a.py", None, None)]),
        ("a.py (246 lines)", [("a.py", None, None)]),
        ("Makefile and .github/workflows/ci.yml", [("Makefile", None, None), (".github/workflows/ci.yml", None, None)]),
        ("https://example.org/a.py:3 and someone@a.py", []),
        ("*.py, src/*_x.py and {name}.py", []),
        ("Node.js, math.log, response.json() and torch.compile", []),
        ("e.g. 3.11, v1.2 and 9.0/10", []),
    ],
)
def test_files_and_lines_are_found_in_every_way_of_citing(line, cited) -> None:
    assert [(each.path, each.first, each.last) for each in cited_in(line)] == cited


def at(text):
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("text", "earliest", "latest"),
    [
        ("2026-02-10 09:30:00 UTC", "2026-02-10T09:30:00+00:00", "2026-02-10T09:30:00+00:00"),
        ("2026-02-10T09:30:00.123Z", "2026-02-10T09:30:00+00:00", "2026-02-10T09:30:00+00:00"),
        ("2026-02-10T19:30:00+10:00", "2026-02-10T09:30:00+00:00", "2026-02-10T09:30:00+00:00"),
        ("2026/2/10 09:30 GMT", "2026-02-10T09:30:00+00:00", "2026-02-10T09:30:59+00:00"),
        ("February 10th, 2026 at 09:30:00 UTC", "2026-02-10T09:30:00+00:00", "2026-02-10T09:30:00+00:00"),
        ("10 Feb 2026", "2026-02-09T10:00:00+00:00", "2026-02-11T14:00:00+00:00"),
        ("2026-02-10 09:30:00", "2026-02-09T19:30:00+00:00", "2026-02-10T23:30:00+00:00"),
    ],
)
def test_a_date_means_a_span_as_wide_as_what_it_does_not_say(text, earliest, latest) -> None:
    moment = read_moment(text)
    assert (moment.earliest, moment.latest) == (at(earliest), at(latest))


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-02-30", "2026-13-01", "0001-01-01", "9999-12-31", "2026-02-10 25:00:00"]
)
def test_what_is_no_date_is_none(text) -> None:
    assert read_moment(text) is None
    assert not has_template_form(text)


@pytest.mark.parametrize(("name", "is_there"), [(NAME, True), ("a_20260230_000000.md", False), ("a_2026.md", False)])
def test_the_time_in_a_name_is_utc(name, is_there) -> None:
    assert (moment_in_name(name) is not None) is is_there


@pytest.mark.parametrize("status", Status)
def test_a_status_is_read_in_other_letters_but_not_among_other_words(status) -> None:
    spelled = status.replace("_", " ").lower()
    assert read_status(status).is_exact
    assert (read_status(f"\u2705 {spelled} (see below)").status, read_status(spelled).is_exact) == (status, False)
    assert read_status(f"{spelled} - with care").status is status
    assert read_status(f"PROVISIONALLY {status}").status is None
    assert read_status(f"{status} AFTER ALL").status is None


@pytest.mark.parametrize("view", sorted(EXPECTED.glob("*.md")), ids=lambda path: path.stem)
def test_a_view_of_ours_is_read_as_what_it_says(view) -> None:
    document = read_document(NAME, view.read_bytes())
    assert looks_like_certificate(document)
    assert document.component
    assert document.identifier.startswith("crt_")
    assert has_template_form(document.dated)
    assert [read_status(status.text).is_exact for status in document.statuses] == [True]
    assert {
        DocumentSection.SCOPE,
        DocumentSection.FINDINGS,
        DocumentSection.DECISION,
        DocumentSection.EVIDENCE,
        DocumentSection.SIGNATURE,
    } <= document.parts


def test_what_findings_say_is_never_taken_for_the_decision() -> None:
    text = certificate(findings="## FINDINGS\n**Status**: REJECTED\n### Outcome of the tests\n**Status**: NO_GO")
    assert [status.text for status in read_document(NAME, text.encode()).statuses] == ["APPROVED"]


PIECES = (
    *(
        "# ",
        "## REVIEW SCOPE\n",
        "## DECISION/OUTCOME\n",
        "## EVIDENCE\n",
        "**Status**: ",
        "Certificate Hash: ",
        "|",
        "```\n",
    ),
    *(
        "**Date**: ",
        "2026-02-10 09:30:00 UTC",
        "+99:99",
        "a.py:12-",
        "\\",
        "../" * 5,
        "<!-- ",
        "> - ",
        "*" * 9,
        "`" * 5,
        "\t",
    ),
    *(
        "\x1b[2J",
        "\u202e",
        "\x00",
        "\x85",
        "\r",
        "\n",
        "APPROVED/GO",
        "sha256:",
        "ab12" * 16,
        "commit ",
        "/etc/x.py",
        "~/a.py",
    ),
)
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=40).map("".join)


@settings(max_examples=300)
@given(
    data=st.one_of(TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=300)),
    at=st.integers(0, 3),
)
def test_no_text_breaks_reading_or_a_check(data, at) -> None:
    name = (NAME, "working-memory.md", "decisions-log.md", "next-actions.md")[at]
    document = read_document(name, data)
    assert len(document.lines) == len(document.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")) or (
        document.text.lstrip().startswith(("`", "~"))
    )
    around = AuditContext(lambda _: KNOWN, NOW)
    subject = Subject(name, Path("/nowhere") / name, document)
    for check in load_checks():
        if document.kind in check.KINDS:
            for each in check.find(subject, around):
                assert each.code in check.MEANING
                assert each.detail.isprintable()


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    "piece", [*PIECES, "[a]: x\n", "- ", "1. a\n", "line 1 of ", "a.py ", "a.py:1, ", "**", "Status ", " ("]
)
def test_a_text_of_the_longest_size_of_anything_is_read(piece) -> None:
    text = piece * (MOST_BYTES // len(piece.encode()))
    document = read_document(NAME, "\n".join(re.split(r"[\r\n]", text)[:MOST_LINES]).encode())
    assert document.kind is DocumentKind.CERTIFICATE


@given(st.text())
def test_what_is_quoted_is_short_and_prints(text) -> None:
    assert quoted(text).isprintable()
    assert len(quoted(text)) <= 10 * 90
