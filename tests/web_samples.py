"""The pages of a project in this process, behind their guard, and a browser that has opened the start URL."""

from __future__ import annotations

import re
import subprocess
from contextlib import asynccontextmanager, contextmanager
from html.parser import HTMLParser

import httpx
from fork_server import ESPER
from places import environment

from esper_agents.web.access import Access
from esper_agents.web.app import build_app
from esper_agents.web.guard import AllowedHosts, Guard
from esper_agents.web.served_project import ServedProject
from esper_agents.web.site import ArchiveSite

PORT = 8750
BASE = f"http://127.0.0.1:{PORT}"


class Pages:
    """A site with a client of it."""

    def __init__(self, site, guard, client, announced):
        self.site, self.guard, self.client, self.announced = site, guard, client, announced

    async def open(self):
        """Open the start URL, as a user does, and return the answer."""
        return await self.client.get("/start", params={"token": self.site.access.start_token})

    async def get(self, path, **options):
        return await self.client.get(path, **options)

    async def project(self):
        return await self.site.served.current()

    async def answer(self, question, text, *, token=None, headers=None, **fields):
        form = {"token": self.site.access.form_token if token is None else token, "answer": text, **fields}
        headers = {"origin": BASE} if headers is None else headers
        return await self.client.post(f"/approvals/{question}", data=form, headers=headers)


@asynccontextmanager
async def pages_of(root, *, allows_answers=False, is_open=True):
    """Yield the pages of a project."""
    announced = []
    access = Access(PORT, announced.append)
    async with ServedProject(root) as served:
        site = ArchiveSite(served, access, allows_answers)
        hosts = AllowedHosts(frozenset(("127.0.0.1", "localhost", "::1")), PORT)
        guard = Guard(build_app(site), access, hosts, accepts_writes=allows_answers)
        transport = httpx.ASGITransport(guard, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            found = Pages(site, guard, client, announced)
            if is_open:
                assert (await found.open()).status_code == 303
            yield found


class Document(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.links, self.texts = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.links += [value for name, value in attrs if name in {"href", "src", "action"}]

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.texts))


@contextmanager
def served(root, home, *options, program=(ESPER,)):
    """Yield a running server with its start URL."""
    command = [*program, "serve", "--project", root, "--port", "0", *options]
    process = subprocess.Popen(command, env=environment(home), stdin=-3, stdout=-1, stderr=-1, text=True)
    try:
        url = process.stderr.readline().split()[-1]
        yield process, url
    finally:
        process.kill()
        process.communicate()
