"""Ten questions, each answered by following links from the first page, on a server and in exported pages."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from archive_samples import Archive, found, made
from toys import calls
from web_samples import Document, pages_of

from esper_agents.api.current_user import person
from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.evidence import Risk
from esper_agents.domain.status import QuestionType, Status
from esper_agents.web import export_pages

pytestmark = pytest.mark.anyio


class Links(HTMLParser):
    """The links of a page by their texts."""

    def __init__(self, html):
        super().__init__()
        self.found, self._open = [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self._open = [dict(attrs)["href"], ""]

    def handle_data(self, data):
        if self._open is not None:
            self._open[1] += data

    def handle_endtag(self, tag):
        if tag == "a" and self._open is not None:
            self.found.append((" ".join(self._open[1].split()), self._open[0]))
            self._open = None

    def to(self, text):
        """Return the first link whose text begins with this one."""
        return next(href for shown, href in self.found if shown.startswith(text))


class Served:
    """A reader of the pages of a server."""

    def __init__(self, pages):
        self.pages = pages

    async def read(self, *way):
        address = "/"
        for text in way:
            html = (await self.pages.get(address)).text
            address = urljoin(address, Links(html).to(text)).partition("#")[0]
        answer = await self.pages.get(address)
        assert answer.status_code == 200, (way, address)
        return Document(answer.text).text


class Exported:
    """A reader of exported pages; the first page is filtered by a script, which the tests in a browser try."""

    def __init__(self, folder):
        self.folder = folder

    async def read(self, *way):
        file = self.folder / "index.html"
        for text in way:
            target = urlsplit(urljoin(file.as_uri(), Links(file.read_text()).to(text)))
            file = Path(unquote(target.path))
        return Document(file.read_text()).text


def deploying(_brief):
    yield calls("clean", text="rm -r build")
    return Conclude("cleaned up")


@pytest.fixture
async def project(toybox):
    """Yield a project with an approved command, a verdict against a release, and notes about a file."""
    toybox.agent("ops", deploying)
    toybox.tool("clean", risk=Risk.MEDIUM)
    async with toybox.open() as opened:
        (opened.root / "train.py").write_text("import torch\n")
        (opened.root / "new.py").write_text("import torch\n")
        await (await toybox.submit(opened, "ops")).run()
        ((_, question),) = await opened.approvals.questions()
        await (await opened.approvals.answer(question.id, "approve", is_decision=True)).run()
        store = Archive(opened.services.store.store)
        findings = (found(1, "ESP101", "train.py", 1),)
        issued = made(7, agent="launch-judge", component="release 1.2", findings=findings)
        against = replace(
            issued.verdict,
            kind=QuestionType.GO,
            status=Status.NO_GO,
            ceiling=replace(issued.verdict.ceiling, status=Status.NO_GO),
        )
        release = replace(
            issued, verdict=against, task=replace(issued.task, kind=QuestionType.GO, request="may 1.2 ship?")
        )
        store.add(release, project=opened.services.project, logged=True)
        session = (await opened.sessions.list())[0]
        await remember(opened, replace(release, session=session.id))
        yield opened


async def remember(opened, certificate):
    from esper_agents.memory import notes
    from esper_agents.memory.lessons import lessons

    def write(store):
        with store.writing() as transaction:
            notes.write(transaction, opened.services.project.key, lessons(certificate))

    await opened.services.store.run(write)


async def answers(reader):
    """Return the answers that need no search and no filter of the list."""
    return {
        "which files have no valid certificate": await reader.read("Files", "No valid certificate"),
        "who approved the shell command": await reader.read("Approvals"),
        "what do agents remember about train.py": await reader.read("Files", "train.py"),
        "what do agents remember at all": await reader.read("Memory"),
        "what did the launch judge remember": await reader.read("Agents", "launch-judge"),
        "which session cost most": await reader.read("Sessions", "Most expensive first"),
        "is the log consistent": await reader.read("Keys and log"),
    }


def check(answered):
    assert "new.py" in answered["which files have no valid certificate"]
    assert "rm -r build" in answered["who approved the shell command"]
    assert f"approved {person()}" in answered["who approved the shell command"]
    _, remembered = answered["what do agents remember about train.py"].split("What agents remember about this file")
    assert "NO_GO for release 1.2" in remembered.partition("Certificates that read this file")[0]
    assert "NO_GO for release 1.2" in answered["what do agents remember at all"]
    assert "No agent of this name is defined here now" in answered["what did the launch judge remember"]
    assert "NO_GO for release 1.2" in answered["what did the launch judge remember"]
    assert "Most expensive first" in answered["which session cost most"]
    assert "consistent" in answered["is the log consistent"]


async def test_a_reader_finds_the_answers_by_links_alone(project, monkeypatch):
    async def current():
        return project

    async with pages_of(project.root) as pages:
        monkeypatch.setattr(pages.site.served, "current", current)
        reader = Served(pages)
        while "loaded again" in await reader.read("Files"):
            pass
        check(await answers(reader))
        release = await reader.read("go/no-go", "may 1.2 ship?")
        assert "NO_GO" in release
        assert "Because" in release
        assert "Since this certificate" in release
        assert "No later certificate answers the same question." in release
        assert "Rule ESP101" in await reader.read()
        assert "Signed by" in await reader.read()


async def test_exported_pages_have_the_same_answers(project, tmp_path):
    written = await export_pages(project.root, tmp_path / "public")
    assert written.incomplete == ()
    check(await answers(Exported(tmp_path / "public")))
