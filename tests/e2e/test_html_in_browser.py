"""The page of a certificate in a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from browsers import CONTRAST_FUNCTIONS, CONTRASTS, browser  # noqa: F401 - a fixture
from certificate_samples import certificate, critical, every_text, full, of_status
from hostile_texts import ATTACKS, PLACES, hostile_certificate, hostile_texts
from measured_samples import full_and_measured

from esper_agents.certificates.statement import statement
from esper_agents.certificates.views.html import render_html
from esper_agents.domain.status import Status

# The same of lines, dots and bars of plots, and of the sign beside the status.
MARKS = f"""() => {{ {CONTRAST_FUNCTIONS}
  return [['.course', 'stroke'], ['.asked', 'stroke'], ['.cross', 'stroke'], ['.axis', 'stroke'], ['.dot', 'fill'],
    ['.share .fill', 'fill'], ['.status svg', 'stroke']].flatMap(([style, property]) =>
      [...document.querySelectorAll(style)].map(each => [style, contrast(each, property)]));
}}"""
ATTRIBUTES = """() => [...document.querySelectorAll('*')].flatMap(each => [...each.attributes].map(one => one.name))"""


@pytest.fixture
def look(browser, tmp_path):  # noqa: F811 - the fixture
    """Return what opens a certificate's page and gives it back with what it asked for and complained of."""
    contexts = []

    def opened(made, **settings):
        file = tmp_path / f"page{len(contexts)}.html"
        file.write_text(render_html(statement(made)), encoding="utf-8")
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | settings))
        contexts.append(context)
        page = context.new_page()
        page.asked, page.said = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("dialog", lambda dialog: page.said.append(dialog.message))
        page.goto(file.as_uri())
        page.file, page.uri = file, file.as_uri()
        return page

    yield opened
    for each in contexts:
        each.close()


def assert_quiet(page):
    """Check that a page asked for nothing but itself, ran nothing and had nothing refused."""
    assert page.asked == [page.uri]
    assert page.said == []
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.querySelectorAll('iframe, object, embed, img, link, base, form').length") == 0
    assert page.evaluate("document.styleSheets.length") == 1
    assert not [each for each in page.evaluate(ATTRIBUTES) if each.startswith("on") or each in {"src", "style"}]
    assert page.locator("#status, .status").count() == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("status", Status)
def test_the_verdict_is_the_first_thing_that_is_seen(look, status):
    page = look(of_status(status))
    assert_quiet(page)
    shown = page.locator("#status span")
    assert shown.inner_text() == status.value
    box = shown.bounding_box()
    assert 0 < box["y"] < 450
    sizes = page.evaluate(
        "[...document.querySelectorAll('main *')].map(one => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('#status span')).fontSize)") == max(sizes)


def test_the_verdict_and_three_findings_fit_on_two_screens(look):
    page = look(certificate(findings=tuple(map(critical, range(1, 4)))), viewport={"width": 1280, "height": 800})
    assert page.locator("article.finding").count() == 3
    assert page.locator("article.finding").last.evaluate("each => each.getBoundingClientRect().bottom") <= 2 * 800


@pytest.mark.slow
def test_ten_thousand_texts_become_no_element_and_ask_for_nothing(look):
    texts = hostile_texts(10_000)
    for at in range(0, len(texts), PLACES):
        page = look(hostile_certificate(texts[at : at + PLACES]))
        assert_quiet(page)
        assert page.locator("#status span").inner_text() == "REQUIRES_REMEDIATION"
        page.context.close()


def test_each_known_attack_leaves_the_same_elements_as_a_harmless_word(look):
    elements = "[...document.querySelectorAll('*')].map(one => one.tagName).filter(one => !/^(CODE|SPAN)$/i.test(one))"
    page = look(every_text(full(), "x"))
    harmless = page.evaluate(elements)
    for text in ATTACKS:
        page.file.write_text(render_html(statement(every_text(full(), text))), encoding="utf-8")
        page.asked.clear()
        page.reload()
        assert_quiet(page)
        assert page.evaluate(elements) == harmless


@pytest.mark.sample(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("made", [full_and_measured, lambda: of_status(Status.ADVISORY_ONLY)])
def test_every_text_stands_out_from_what_is_behind_it(look, scheme, made):
    page = look(made(), color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 80
    assert [contrast for contrast in contrasts if contrast[1] < 4.5] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_mark_of_a_plot_stands_out_from_what_is_behind_it(look, scheme):
    marks = look(full_and_measured(), color_scheme=scheme).evaluate(MARKS)
    assert len({style for style, _ in marks}) == 7
    assert [mark for mark in marks if mark[1] < 3] == []


@pytest.mark.sample(4)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("status", Status)
def test_every_status_stands_out_in_both_schemes(look, scheme, status):
    page = look(of_status(status), color_scheme=scheme)
    assert min(each[1] for each in page.evaluate(CONTRASTS)) >= 4.5


def test_dark_is_dark_and_light_is_light(look):
    made, seen = full_and_measured(), {}
    for scheme in ("light", "dark"):
        page = look(made, color_scheme=scheme)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        seen[scheme] = [int(each) for each in re.findall("[0-9]+", colour)]
    assert min(seen["light"]) > 200
    assert max(seen["dark"]) < 60


@pytest.mark.sample(3)
@pytest.mark.parametrize("width", [320, 390, 768, 1200, 2000])
@pytest.mark.parametrize("made", [full_and_measured, lambda: every_text(full(), "x" * 3000)])
def test_a_page_fits_every_width(look, made, width):
    page = look(made(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_plots_are_drawn_where_they_can_be_seen(look):
    page = look(full_and_measured())
    drawings = page.locator("svg.plot")
    assert drawings.count() == 3
    for each in drawings.all():
        box = each.bounding_box()
        assert box["width"] > 300
        assert box["height"] > 60
    for each in page.locator("svg.plot text").all():
        inside, label = each.locator("xpath=ancestor::*[local-name()='svg']").bounding_box(), each.bounding_box()
        assert inside["x"] <= label["x"]
        assert label["x"] + label["width"] <= inside["x"] + inside["width"] + 1
    bars = [each.bounding_box()["width"] for each in page.locator(".share .fill").all()]
    assert max(bars) > 4 * min(bars) > 0


def test_it_can_be_read_by_keyboard(look):
    page = look(full_and_measured())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the verdict"
    page.keyboard.press("Enter")
    assert page.url.endswith("#verdict")
    links = page.locator("nav a").all()
    for link in links:
        target = link.get_attribute("href")
        link.click()
        assert page.locator(target).bounding_box()["y"] < 900
    assert len(links) == 9


def test_it_prints_all_of_it_on_white(look):
    page = look(full_and_measured(), color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert page.locator("details pre").first.is_visible()
    assert [each for each in page.evaluate(CONTRASTS) if each[1] < 4.5] == []
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF-")
    assert printed.rstrip().endswith(b"%%EOF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 3
    assert b"/Font" in printed
    streams = [part.partition(b"endstream")[0].strip(b"\r\n") for part in printed.split(b"stream\n")[1:]]
    assert any(b"BT" in zlib.decompressobj().decompress(stream) for stream in streams if stream[:1] == b"\x78")
    assert_quiet(page)


def test_a_page_of_many_findings_is_there_at_once(look):
    page = look(replace(full(), findings=full().findings * 250))
    assert page.locator("article.finding").count() == 200
    assert_quiet(page)


def test_what_installs_the_browser_does_nothing_the_second_time():
    if not Path(sys.executable).with_name("chromium-for-tests").is_file():
        pytest.skip("no Chromium of the tests' own: what installs it was NOT run")
    script = Path(__file__).parents[1] / "install_browser.py"
    before = (Path(sys.prefix) / "chromium" / "chromium").stat().st_mtime_ns
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert (Path(sys.prefix) / "chromium" / "chromium").stat().st_mtime_ns == before
