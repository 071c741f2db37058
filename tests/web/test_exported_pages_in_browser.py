"""Exported pages in a real browser, from disk and from a web server: no message, search, filters, widths, contrast."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browsers import CONTRASTS, browser  # noqa: F401 - a fixture
from judged import FAULTY
from places import Place

from esper_agents.web import export_pages

PAGES = ("index.html", "index.html?q=gradients", "files.html", "agents.html", "agents/pytorch-code-reviewer.html")
FURTHER = (
    "sessions.html",
    "sessions/ses_*.html",
    "approvals.html",
    "memory.html",
    "trends.html",
    "trends/examined-files-*.html",
    "log.html",
    "files/train-py-*.html",
    "certificates/*.html",
)
ORIGINS = ("disk", "server")
WIDTHS = (360, 820, 1440)
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
RESULTS = ".rows-list .row"


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """Return a project with two certificates."""
    root, home = (tmp_path_factory.mktemp(name) for name in ("toy", "home"))
    (root / "train.py").write_text(FAULTY)
    (root / "data.py").write_text("import torch\n\nSIZE = 3\n")
    place = Place(root, home)
    place.esper("submit", "review this training code", "train.py", "--agent", "pytorch-code-reviewer")
    place.esper("submit", "review the data code", "data.py", "--agent", "pytorch-code-reviewer")
    return place


@pytest.fixture(scope="module")
def public(toy, tmp_path_factory):
    """Return a folder with the exported pages of the project."""
    folder = tmp_path_factory.mktemp("public")
    toy.esper("archive", "export", "--html", str(folder))
    return folder


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def base_of(folder, origin):
    """Yield the address of a folder, from disk or from a web server that knows nothing of it."""
    if origin == "disk":
        yield f"{folder.as_uri()}/"
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def visit(browser, public):  # noqa: F811 - the fixture
    """Return what opens a page of the export in a new context, with all that the browser complained of."""
    contexts = []

    def opened(url, **settings):
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | settings))
        contexts.append(context)
        page = context.new_page()
        page.asked, page.said = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()


def paths_of(folder):
    return [*PAGES, *(next(folder.glob(pattern)).relative_to(folder).as_posix() for pattern in FURTHER)]


@pytest.mark.parametrize("origin", ORIGINS)
def test_exported_pages_work_without_a_message_and_ask_for_nothing_else(visit, public, origin):
    with base_of(public, origin) as base:
        page = visit(base) if origin == "server" else visit(base + "index.html")
        for path in paths_of(public):
            page.goto(base + path)
            assert page.said == [], path
            assert page.locator("h1").count() == 1, path
            assert page.locator(".shell-row").bounding_box()["height"] < 100, "the style sheet applies"
        assert all(url.startswith(base) for url in page.asked)


@pytest.mark.parametrize("origin", ORIGINS)
def test_search_and_filters_work_without_a_server_of_ours(visit, public, origin):
    with base_of(public, origin) as base:
        page = visit(base + next(public.glob("certificates/*.html")).relative_to(public).as_posix())
        page.locator(".search input").fill("gradients added")
        page.keyboard.press("Enter")
        page.wait_for_url("**/index.html?q=gradients+added")
        page.locator("#count", has_text="1 certificate").wait_for()
        assert page.locator(RESULTS).count() == 1
        assert "gradients are added up" in page.locator(".row-passage").inner_text()
        page.locator("#chosen a", has_text="words").click()
        page.locator("#count", has_text="2 certificates").wait_for()
        page.locator("#groups a", has_text="approval").click()
        page.wait_for_url("**/index.html?kind=approval")
        page.locator("#chosen a", has_text="question type: approval").click()
        page.locator("#count", has_text="2 certificates").wait_for()
        page.locator("#groups a", has_text="data.py").click()
        page.locator("#count", has_text="1 certificate").wait_for()
        assert page.locator(".row-link").inner_text() == "review the data code"
        page.locator(".row-link").click()
        page.wait_for_url("**/certificates/crt_*.html")
        assert "data" in page.locator("h1").inner_text()
        page.go_back()
        page.locator("#chosen a", has_text="file: data.py").wait_for()
        page.goto(f"{base}index.html?q=unheardof")
        page.locator("#no-match").wait_for()
        assert page.said == []


def test_the_keyboard_reaches_the_rows_that_a_script_wrote(visit, public):
    page = visit(f"{public.as_uri()}/index.html?rule=esp101")
    page.locator("#count", has_text="1 certificate").wait_for()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.className") == "row-link"


def test_without_scripts_the_newest_certificates_are_listed(visit, public):
    page = visit(f"{public.as_uri()}/index.html", java_script_enabled=False)
    assert page.locator(RESULTS).count() == 2
    assert "need JavaScript" in page.locator("noscript").inner_text()


def test_a_filter_reads_the_index_of_older_certificates_as_well(visit, toy, tmp_path, monkeypatch):
    monkeypatch.setattr("esper_agents.web.export.search_records.MOST_IN_SCRIPT", 1)
    monkeypatch.setenv("ESPER_HOME", str(toy.home))
    # In a thread: the browser has the event loop of this one.
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(lambda: asyncio.run(export_pages(toy.root, tmp_path / "split"))).result()
    assert made.certificates == 2
    page = visit(f"{(tmp_path / 'split').as_uri()}/index.html?q=gradients")
    page.locator("#count", has_text="1 certificate").wait_for()
    page.locator(".row-passage", has_text="gradients are added up").wait_for()
    scripts = [url.rpartition("/")[2] for url in page.asked if "certificates-" in url]
    assert scripts == ["certificates-1.js", "certificates-2.js"]
    assert page.said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_of_exported_pages_stands_out(visit, public, scheme):
    page = visit(f"{public.as_uri()}/index.html", color_scheme=scheme)
    for path in paths_of(public):
        page.goto(f"{public.as_uri()}/{path}")
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert [each for each in page.evaluate(CONTRASTS) if each[1] < 4.5] == [], path


@pytest.mark.parametrize("width", WIDTHS)
def test_no_exported_page_is_wider_than_its_window(visit, public, width):
    page = visit(f"{public.as_uri()}/index.html", viewport={"width": width, "height": 800})
    for path in paths_of(public):
        page.goto(f"{public.as_uri()}/{path}")
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert not page.evaluate(WIDER), path
