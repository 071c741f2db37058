"""Write the pages of a project to files that need no server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from esper_agents.web.access import Access
from esper_agents.web.app import build_app
from esper_agents.web.export.page_files import INDEX, PageLinks
from esper_agents.web.export.search_records import search_scripts
from esper_agents.web.export.target_folder import TargetFolder
from esper_agents.web.rendering import page_links, part
from esper_agents.web.served_project import ServedProject
from esper_agents.web.site import ArchiveSite, PageExport

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.applications import Starlette

    from esper_agents.api import OpenProject

# Browsers read `'self'` as the server of a page; a page from disk has none, and its files are `file:`.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:; "
    "form-action 'self' file:; base-uri 'none'"
)
_FIRST = ("/files", "/sessions", "/approvals", "/agents", "/memory", "/trends", "/log")
_DONE = 200


@dataclass(frozen=True, slots=True)
class ExportedPages:
    """Result of an export of pages.

    Attributes:
        index: First page.
        certificates: Number of certificates.
        files: Number of written files.
        incomplete: Files that show a problem instead of a page, such as that of a certificate that was modified.
        size_bytes: Size of all files.
    """

    index: Path
    certificates: int
    files: int
    incomplete: tuple[str, ...]
    size_bytes: int


async def export_pages(root: Path, to: Path, on_begin: Callable[[int], None] = lambda _: None) -> ExportedPages:
    """Write the pages of a project to a folder.

    The folder must be new, empty, or written by an earlier export, whose pages are replaced.

    Args:
        root: Project directory.
        to: Folder to write.
        on_begin: Called with the number of certificates before their pages are written.

    Raises:
        UsageError: The folder has other content.
        StorageError: It cannot be written, or the database cannot be used.
    """
    folder = TargetFolder(to)
    async with ServedProject(root) as served:
        project = await served.current()
        with folder:
            return await _PageWriter(served, folder).write_all(project, to / INDEX, on_begin)


class _PageWriter:
    """Asks the application of a server for pages, beginning with the certificates, and writes them."""

    def __init__(self, served: ServedProject, folder: TargetFolder) -> None:
        self._folder = folder
        self._links = PageLinks()
        self._site = ArchiveSite(served, Access(0, lambda _: None), allows_answers=False)
        self._size_bytes, self._files = 0, 0
        self._incomplete: list[str] = []

    async def write_all(self, project: OpenProject, index: Path, on_begin: Callable[[int], None]) -> ExportedPages:
        scripts, certificates = [], 0
        async for script, entries in search_scripts(project):
            self._write(script.name, script.content())
            scripts.append(script.name)
            certificates += len(entries)
            for entry in entries:
                self._links.add(f"/certificates/{part(entry.id)}")
        on_begin(certificates)
        self._site.exported = PageExport(
            at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            version=version("esper-agents"),
            content_policy=CONTENT_POLICY,
            scripts=tuple(scripts),
            certificates=certificates,
            repository=await project.browsing.repository(),
            key_names=project.browsing.key_names(),
            pending=await project.approvals.list(),
        )
        project.memory.keep_digests()
        await self._site.settled_coverage(project)
        for address in ("/", *_FIRST):
            self._links.add(address)
        app = build_app(self._site)
        token = page_links.set(self._links.link)
        try:
            while self._links.waiting:
                await self._write_page(app, self._links.waiting.pop())
        finally:
            page_links.reset(token)
        return ExportedPages(index, certificates, self._files, tuple(sorted(self._incomplete)), self._size_bytes)

    async def _write_page(self, app: Starlette, address: str) -> None:
        name = self._links.enter(address)
        status, data = await _response(app, address)
        if status != _DONE:
            self._incomplete.append(name)
        self._write(name, data)

    def _write(self, name: str, data: bytes) -> None:
        self._folder.write(name, data)
        self._files += 1
        self._size_bytes += len(data)


async def _response(app: Starlette, address: str) -> tuple[int, bytes]:
    """Return status and body of the answer of an application to a request."""
    split = urlsplit(address)
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(split.path),
        "raw_path": split.path.encode(),
        "query_string": split.query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": None,
        "server": ("localhost", 80),
    }
    status, parts = 0, []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(parts)
