from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from certificate_samples import certificate, critical, every_text, evidence, finding, full, of_status
from hostile_texts import ATTACKS, PLACES, hostile_certificate, hostile_texts
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_samples import full_and_measured

from esper_agents.certificates.statement import digest_of, statement
from esper_agents.certificates.views.html import html_layout, render_html
from esper_agents.domain.finding import Location
from esper_agents.domain.status import Status
from esper_agents.errors import IntegrityError
from esper_agents.paths import data_folder

VOID = {"meta", "wbr", "path", "circle", "rect", "polyline"}
# What a text may turn into, wherever it stands: code that it quotes, and the colours of an excerpt.
INSIDE_TEXT = {"code", "span"}


class Page(HTMLParser):
    """A page as a list of its elements, checked to be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def handle_comment(self, data):
        pytest.fail(f"a comment: {data}")

    def named(self, tag):
        return [attributes for each, attributes in self.elements if each == tag]


def tags_of(text):
    """Return the sorts of tags in a page as they are written, numbers apart."""
    return {re.sub(r"-?\d+(?:\.\d+)?", "N", each) for each in re.findall(r"<[^>]*>?", text)}


def shape_of(page):
    return [tag for tag, _ in page.elements if tag not in INSIDE_TEXT]


KNOWN_TAGS = set().union(
    *(
        tags_of(render_html(statement(made)))
        for made in (full_and_measured(), every_text(full(), "x"), *map(of_status, Status))
    )
) | {f'<span class="{name}">' for name in ("comment", "string", "number", "keyword", "line quiet", "quiet")}


def check(text):
    """Check that a page is the template's, whatever is in it; return it parsed."""
    assert tags_of(text) <= KNOWN_TAGS
    page = Page(text)
    assert [each.get("id") for _, each in page.elements].count("status") == 1
    assert sum("status" in (each.get("class") or "").split() for _, each in page.elements) == 1
    assert not [
        tag for tag, _ in page.elements if tag in {"script", "iframe", "object", "embed", "img", "link", "base"}
    ]
    names = {name for _, each in page.elements for name in each}
    assert not [name for name in names if name.startswith("on") or name in {"style", "src", "srcset", "action", "data"}]
    assert all(each["href"].startswith("#") for _, each in page.elements if "href" in each)
    assert (
        re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]", text)
        is None
    )
    return page


def status_of(text):
    found = re.search(r'<p class="status" id="status">.*?<span>(.*?)</span></p>', text, re.DOTALL).group(1)
    return found.replace("_<wbr>", "_")


@pytest.mark.parametrize("status", Status)
def test_every_status_stands_once_at_the_top_in_its_own_words(status):
    text = render_html(statement(of_status(status)))
    check(text)
    assert status_of(text) == status.value
    assert text.index('id="status"') < text.index('id="findings"')


def test_each_stance_has_a_sign_that_is_no_colour():
    signs = {}
    for status in Status:
        text = render_html(statement(of_status(status)))
        tone = re.search(r'class="verdict (\w+)"', text).group(1)
        signs.setdefault(tone, set()).add(re.search(r'id="status"><svg.*?</svg>', text).group())
    assert set(signs) == {"good", "caution", "open", "bad", "stop", "plain"}
    assert all(len(sign) == 1 for sign in signs.values())
    assert len(set.union(*signs.values())) == 6


def test_a_page_has_every_part_of_a_certificate():
    made = full_and_measured()
    text = render_html(statement(made))
    page = check(text)
    said = " ".join(" ".join(data for _, data in page.texts).split())
    for part in (
        made.verdict.rationale,
        made.summary,
        *(each.claim.rule for each in made.findings),
        *(each.claim.location.path for each in made.findings),
        *(each.id for each in made.evidence),
        *(each.rerun for each in made.evidence),
        *(each.sha256 for each in made.examined),
        *(assumption.text for assumption in made.assumptions),
        *(gap.command for gap in made.gaps),
        *made.caveats,
        *made.next_steps,
        *(handoff.sentence for handoff in made.handoffs),
        *(consult.answer for consult in made.consults),
        *(relation.certificate for relation in made.relations),
        made.revision.commit,
        "esper-agents 0.1.0",
        made.risks.rows[0].mitigation,
        made.verdict.ceiling.policy_sha256,
        digest_of(statement(made)),
        f"esper certificates verify {made.id}",
        html_layout(),
    ):
        assert " ".join(part.split()) in said


def test_headings_stand_in_order_and_sections_are_named_by_them():
    page = Page(render_html(statement(full_and_measured())))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [each["id"] for _, each in page.elements if "id" in each]
    assert len(ids) == len(set(ids))
    targets = [each["href"][1:] for each in page.named("a")]
    labels = [each["aria-labelledby"] for each in page.named("section")]
    assert set(targets + labels) <= set(ids)
    assert all(each.get("aria-hidden") == "true" or each["aria-label"] for each in page.named("svg"))


def test_a_finding_stands_with_its_line_and_a_link_to_its_evidence():
    text = render_html(statement(certificate(findings=(critical(),))))
    assert '<span class="at" aria-hidden="true">7</span>        loss.backward()\n' in text
    assert '<a href="#e1">evidence 1</a>' in text
    assert 'id="e1"' in text


def test_a_reason_leads_to_its_finding():
    text = render_html(statement(certificate(findings=(finding(1), critical()))))
    (target,) = re.findall(r'<a href="#(f[0-9]+)">examples/train.py:7</a>', text)
    article = text[text.index(f'id="{target}"') :]
    assert "loss.backward()" in article[: article.index("</article>")]


@pytest.mark.parametrize(("findings", "is_shown"), [((), False), ((critical(),), True)])
def test_an_empty_result_has_no_risk_and_no_confidence(findings, is_shown):
    text = render_html(statement(certificate(findings=findings)))
    for label in ("<dt>Risk level</dt>", "<dt>Confidence</dt>", "<dt>Implementation risk</dt>"):
        assert (label in text) is is_shown
    assert ("Nothing was reported, which does not prove that nothing is wrong." in text) is not is_shown


def test_evidence_that_the_page_does_not_show_is_named_without_a_link():
    made = certificate(findings=(critical(),), evidence=tuple(evidence(number) for number in range(60, 0, -1)))
    assert f"Reported by pytorch-code-reviewer, <code>ev_{1:032x}</code>." in render_html(statement(made))


def test_the_policy_of_the_page_allows_its_own_style_and_nothing_else():
    text = render_html(statement(full()))
    page = Page(text)
    (policy,) = [each["content"] for each in page.named("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL).group(1)
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert re.search(r"url\(|@import|expression|javascript:", style) is None
    assert {"name": "referrer", "content": "no-referrer"} in page.named("meta")
    assert page.named("html") == [{"lang": "en"}]


@pytest.mark.sample(12)
@pytest.mark.parametrize("text", ATTACKS)
def test_a_known_attack_stays_text(text):
    page = check(render_html(statement(every_text(full(), text))))
    assert shape_of(page) == HARMLESS


@settings(max_examples=60)
@given(st.lists(st.sampled_from(ATTACKS) | st.text(min_size=1, max_size=8), min_size=1, max_size=4).map("".join))
def test_no_text_becomes_an_element(text):
    assert shape_of(check(render_html(statement(every_text(full(), text))))) == HARMLESS


HARMLESS = shape_of(Page(render_html(statement(every_text(full(), "x")))))


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_hostile_texts_leave_each_page_with_one_status_and_no_markup_of_their_own(count):
    texts = hostile_texts(count)
    assert len(set(texts)) == count
    for at in range(0, len(texts), PLACES):
        data = statement(hostile_certificate(texts[at : at + PLACES]))
        text = render_html(data)
        check(text)
        assert status_of(text) == "REQUIRES_REMEDIATION"


def test_what_is_shown_of_a_text_is_the_text():
    said = "a < b && c > d; \"quoted\" 'too' &amp; \\n"
    text = render_html(statement(certificate(summary=said)))
    page = Page(text)
    assert said in [data for _, data in page.texts]


def test_an_expression_that_no_ink_made_is_escaped_whatever_it_says_of_itself():
    from markupsafe import Markup

    from esper_agents.certificates.views.html import html_environment

    template = html_environment().from_string("{{ x }}|{{ x ~ '' }}|{{ x | upper }}|{{ x | safe }}|{{ y }}")
    said = template.render(x="<b>", y=Markup("<b>")).split("|")
    assert said == ["&lt;b&gt;", "&lt;b&gt;", "&lt;B&gt;", "&lt;b&gt;", "&lt;b&gt;"]


def test_an_undefined_name_in_the_template_is_an_error():
    from jinja2 import UndefinedError

    from esper_agents.certificates.views.html import html_environment

    with pytest.raises(UndefinedError):
        html_environment().from_string("{{ nothing }}").render()


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_findings_without_number_make_a_page_that_a_person_can_load(monkeypatch, count):
    one = certificate(findings=(finding(),))
    data, many = statement(one), replace(one, findings=one.findings * count)
    # To write and read such a record takes a minute; what it becomes is the question here.
    monkeypatch.setattr("esper_agents.certificates.views.view_model.parse", lambda _: many)
    text = render_html(data)
    assert len(text) < 200_000
    assert text.count('<article class="finding') == 50
    assert f"and {count - 50} more, see the record" in text


def test_long_lists_and_large_outputs_are_cut_and_say_so():
    many = tuple(finding(number, location=Location("examples/train.py", number)) for number in range(1, 221))
    outputs = tuple(evidence(number, output={"said": "y" * 100_000}) for number in range(1, 71))
    made = certificate(findings=many, evidence=outputs, summary="x" * 5000, caveats=("check",) * 70)
    text = render_html(statement(made))
    assert len(text) < 400_000
    for said in (
        "and 170 more",
        "and 20 more, see the record",
        "(3000 more characters in the record)",
        "the rest is in",
    ):
        assert said in text


def test_pages_of_earlier_layouts_are_rendered_from_the_files_that_their_name_digests():
    earlier = sorted((data_folder("certificates") / "layouts").glob("*.html.j2"))
    assert len(earlier) == 2
    for template in earlier:
        named = template.name.removesuffix(".html.j2")
        parts = b"\0".join((template.read_bytes(), template.with_name(f"{named}.css").read_bytes()))
        assert named.partition(".")[2] == sha256(parts).hexdigest()[:12]
        page = Page(render_html(statement(full()), named))
        assert {"name": "generator", "content": f"esper-agents, layout {named}"} in page.named("meta")


def test_bytes_that_are_no_certificate_do_not_render():
    with pytest.raises(IntegrityError):
        render_html(b"{}")


@pytest.mark.parametrize("is_altered", [False, True])
def test_the_commands_on_the_page_check_a_signature_with_openssl_alone(tmp_path, is_altered):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl: the commands on the page were NOT run")
    from esper_agents.certificates.signing.dsse import envelope_bytes, seal
    from esper_agents.certificates.signing.signing_key import as_pem, signing_key

    data = statement(full())
    key = signing_key(tmp_path)
    envelope = envelope_bytes(seal(key, data))
    if is_altered:
        other = statement(replace(full(), summary="All is well."))
        envelope = envelope.replace(base64.b64encode(data), base64.b64encode(other))
    (tmp_path / "view.dsse.json").write_bytes(envelope)
    pem = as_pem(key.public_key)
    (tmp_path / "key.pem").write_bytes(pem if isinstance(pem, bytes) else pem.encode())
    page = Page(render_html(data))
    commands = next(data for tag, data in page.texts if tag == "code" and data.startswith("sed "))
    done = subprocess.run(
        ["sh", "-c", commands],
        cwd=tmp_path,
        env=os.environ | {"NAME": "view"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("Signature Verified Successfully" in done.stdout) is not is_altered
    assert (digest_of(data).removeprefix("sha256:") in done.stdout) is not is_altered
