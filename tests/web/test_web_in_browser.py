"""The pages in a real browser: names of all controls, contrast, no message, keyboard, widths, events as they come."""

from __future__ import annotations

import pytest
from browsers import CONTRASTS, browser  # noqa: F401 - a fixture
from judged import FAULTY
from places import Place
from web_samples import served

PATHS = (
    *("/", "/?q=gradients", "/files", "/file?path=train.py", "/sessions", "/sessions/latest", "/approvals", "/agents"),
    *("/memory", "/memory?kind=next-actions", "/sessions?order=cost", "/?kind=approval"),
    *("/agents/pytorch-code-reviewer", "/trends", "/trends/examined.files", "/log", "/certificates/latest"),
)
WIDTHS = (360, 820, 1440)
CONTROLS = "a, button, input:not([type=hidden]), summary, [role=group]"
UNNAMED = f"""() => [...document.querySelectorAll('{CONTROLS}')].filter(each =>
  !(each.innerText || '').trim() && !each.getAttribute('aria-label') && !(each.labels && each.labels.length)
).map(each => each.outerHTML)"""
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture
def visit(browser, make_project, home):  # noqa: F811 - the fixture
    """Return what opens a page in a browser that has opened the start URL, with all that it complained of."""
    contexts, root = [], make_project({"train.py": FAULTY})
    # In a process of its own: the browser has the event loop of this one.
    Place(root, home).esper("submit", "review this training code", "train.py", "--agent", "pytorch-code-reviewer")
    with served(root, home) as (_, start):
        base = start.partition("/start")[0]
        first = browser.new_context()
        contexts.append(first)
        opening = first.new_page()
        opening.goto(start)
        assert opening.url == f"{base}/"
        state = first.storage_state()

        def opened(path, **settings):
            context = browser.new_context(
                **({"viewport": {"width": 1200, "height": 900}} | settings), storage_state=state
            )
            contexts.append(context)
            page = context.new_page()
            page.asked, page.said = [], []
            page.on("request", lambda request: page.asked.append(request.url))
            page.on("console", lambda message: page.said.append(message.text))
            page.on("pageerror", lambda error: page.said.append(str(error)))
            page.on("dialog", lambda dialog: page.said.append(dialog.message))
            page.goto(base + path)
            return page

        opened.base = base
        yield opened
        for each in contexts:
            each.close()


def test_no_page_complains_asks_for_anything_else_or_has_a_control_without_a_name(visit):
    page = visit("/")
    for path in PATHS:
        page.goto(visit.base + path)
        assert page.said == [], path
        assert page.evaluate(UNNAMED) == [], path
        assert page.locator("h1").count() == 1, path
        tree = page.locator("body").aria_snapshot()
        for landmark in ("banner", "main", "contentinfo", "search", 'navigation "Archive"'):
            assert f"- {landmark}" in tree, (path, landmark)
        assert page.evaluate("document.title").endswith("toy")
    assert all(url.startswith(visit.base) for url in page.asked)
    assert not [url for url in page.asked if "token" in url]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(visit, scheme):
    page = visit("/", color_scheme=scheme)
    for path in PATHS:
        page.goto(visit.base + path)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert [each for each in page.evaluate(CONTRASTS) if each[1] < 4.5] == [], path


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_window(visit, width):
    page = visit("/", viewport={"width": width, "height": 800})
    for path in PATHS:
        page.goto(visit.base + path)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert not page.evaluate(WIDER), path


def test_the_keyboard_reaches_the_search_the_rows_and_the_content(visit):
    page = visit("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("j/k")
    assert page.evaluate("document.activeElement.value") == "j/k"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.className") == "row-link"
    page.keyboard.press("Enter")
    page.wait_for_url("**/certificates/**")


def test_the_chosen_tab_is_seen_in_a_narrow_window(visit):
    page = visit("/log", viewport={"width": 360, "height": 800})
    box = page.locator(".tabs [aria-current]").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360


def test_the_verdict_is_seen_without_scrolling(visit):
    page = visit("/certificates/latest", viewport={"width": 390, "height": 844})
    box = page.locator(".status").first.bounding_box()
    assert 0 < box["y"] < 400
    assert page.locator(".status").first.inner_text() == "REQUIRES_REMEDIATION"


def test_a_page_of_another_site_gets_nothing(visit, browser, tmp_path):  # noqa: F811 - the fixture
    evil = tmp_path / "evil.html"
    evil.write_text(
        f"<iframe src='{visit.base}/'></iframe><img src='{visit.base}/static/icon.svg'><a href='{visit.base}/'>x</a>"
    )
    page = visit("/")
    answers = []
    page.on("response", lambda response: answers.append((response.url, response.status)))
    page.goto(evil.as_uri())
    assert {status for url, status in answers if url.startswith(visit.base)} <= {403}
    assert page.frames[-1].locator("h1").count() == 0


def test_the_verdict_and_three_findings_fit_on_two_screens(visit):
    page = visit("/certificates/latest", viewport={"width": 1280, "height": 800})
    boxes = page.locator("article.finding").evaluate_all(
        "found => found.map(each => [each.getBoundingClientRect().top, each.getBoundingClientRect().bottom])"
    )
    # The project has two findings: a third is as high as the higher one of them, at the same distance.
    (first, second), between = boxes, boxes[1][0] - boxes[0][1]
    assert second[1] + between + max(first[1] - first[0], second[1] - second[0]) <= 2 * 800


def test_a_finding_leads_to_its_line(visit):
    page = visit("/certificates/latest")
    page.locator("article.finding").get_by_role("link", name="train.py:8").first.click()
    line = page.locator("#L8")
    assert "loss.backward()" in line.inner_text()
    assert line.evaluate("each => each.matches(':target') && each.getBoundingClientRect().top > 0")
    assert not page.said


def test_a_question_is_answered_in_the_browser_and_the_session_continues_on_its_page(browser, make_project, home):  # noqa: F811 - the fixture
    root, request = (
        make_project({"train.py": FAULTY}),
        ("review this training code", "train.py", "--ask", "torch-targets"),
    )
    Place(root, home).esper("submit", *request, "--agent", "pytorch-code-reviewer")
    with served(root, home, "--allow-answers") as (_, start):
        page = browser.new_page()
        said = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(start)
        page.get_by_role("link", name="Approvals").click()
        page.get_by_role("button", name="approve").click()
        page.wait_for_url("**/sessions/**")
        # The events arrive on the page, which shows the result once the session has ended.
        page.locator("dd", has_text="done").wait_for(timeout=60_000)
        assert "REQUIRES_REMEDIATION" in page.locator("#timeline").inner_text()
        assert page.locator("table", has_text="approved").count() == 1
        assert said == []
        page.close()
