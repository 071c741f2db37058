"""Publish views of archived certificates; repeatable, and atomic per file."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates import archive
from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log.note import MOST_BYTES, includes, read_proof
from esper_agents.certificates.notices import log_notices
from esper_agents.certificates.signing.dsse import envelope_bytes
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.certificates.statement import parse
from esper_agents.certificates.views.file_names import accepted_view_names, agent_folder
from esper_agents.certificates.views.html import render_html
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.certificates.views.plain_text import plain
from esper_agents.errors import EsperError, IntegrityError, UsageError
from esper_agents.memory import notes
from esper_agents.memory.documents import document
from esper_agents.paths import home
from esper_agents.storage import locks
from esper_agents.storage.engine import translate_database_errors
from esper_agents.tools.git import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from esper_agents.certificates.archive import CertificateSummary
    from esper_agents.certificates.signing.key_history import LogNotice
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.memory import NoteKind
    from esper_agents.domain.project import Project
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.storage.store import Store


_SCRATCH = ".esper-"
_LONGEST_SHOWN = 200
# What our memory documents say near their beginning.
_OURS, _HEAD_BYTES = b"Rendered from the database", 4096


def publish(store: Store, workshop: ProjectServices, certificate_id: str) -> tuple[Path, ...]:
    """Write a certificate's views, what vouches for it beside them, and the documents of the agents that took part.

    What a person deleted or changed is written again as the database has it.

    Returns:
        The files that were not as they are to be.
    """
    published = find_published(store, workshop, certificate_id)
    with store.reading() as connection:
        wanted = _files(connection, transparency_log.log_of(connection, workshop.project.key), published)
        pins.renew(connection, home(), store.where, workshop.project.key)
    wanted |= _memory(store, workshop, (each.agent for each in published.issued.definitions))
    return tuple(path for path, data in wanted.items() if _write(path, data))


def publish_memory(store: Store, workshop: ProjectServices, agents: Iterable[str]) -> tuple[Path, ...]:
    """Write the documents of some agents as they are now; see `publish`."""
    return tuple(path for path, data in _memory(store, workshop, agents).items() if _write(path, data))


def write_document(folder: Path, agent: str, kind: NoteKind, text: str, *, replace: bool = False) -> Path:
    """Write one memory document to a folder of the person's choice, and return where it is.

    Raises:
        UsageError: Something else stands there, and it is not to be replaced.
    """
    path = folder / agent_folder(agent) / f"{kind}.md"
    with translate_database_errors(str(path)):
        if path.exists() and not replace and not (path.is_file() and _has(path, text.encode())):
            raise UsageError(f"something else is at {str(path)!r}", remedy="name another folder, or add --replace")
    _write(path, text.encode())
    return path


def _memory(store: Store, workshop: ProjectServices, agents: Iterable[str]) -> dict[Path, bytes]:
    wanted = {}
    for agent in dict.fromkeys(agents):
        folder = _folder(workshop, agent)
        for kind, kept in notes.of_agent(store, workshop.project.key, agent).items():
            wanted[_memory_path(workshop, folder, agent, kind)] = document(agent, kind, kept).encode()
    return wanted


def _memory_path(workshop: ProjectServices, folder: Path, agent: str, kind: NoteKind) -> Path:
    """Return where a memory document is published: never in place of one that people wrote by hand."""
    path = folder / f"{kind}.md"
    try:
        found = read_plain(path, _HEAD_BYTES)
        is_ours = found is not None and _OURS in found.data
    except FileNotFoundError:
        is_ours = True
    except (OSError, ValueError):
        is_ours = False
    return path if is_ours else workshop.home / "published" / agent_folder(agent) / path.name


def _files(connection: Connection, log_id: int, published: PublishedCertificate) -> dict[Path, bytes]:
    """Return what stands where of a certificate: its views, envelope and proof, and each later entry about it."""
    view = published.view
    envelope = envelope_bytes(transparency_log.envelope(connection, log_id, published.issued.id))
    proof = transparency_log.proof(connection, log_id, published.issued.id).encode()
    wanted = {
        view: render_markdown(published.data).encode(),
        page_path(view): render_html(published.data).encode(),
        record_path(view): envelope,
        proof_path(view): _kept_proof(proof_path(view), envelope, proof),
    }
    return wanted | notice_contents(
        view, log_notices(transparency_log.notices_about(connection, log_id, published.issued.id))
    )


def notice_contents(view: Path, notices: Iterable[LogNotice]) -> dict[Path, bytes]:
    """Return the files beside a view that hold notices of the log about its certificate."""
    contents = {}
    for each in notices:
        contents[view.with_suffix(f".{each.index}{NOTICE_SUFFIX}")] = envelope_bytes(each.envelope)
        if each.notice.signature:
            contents[view.with_suffix(f".{each.index}.sshsig")] = each.notice.signature.encode()
    return contents


@dataclass(frozen=True, slots=True)
class PublishedCertificate:
    """A certificate of the archive and the path of its Markdown view.

    Attributes:
        issued: The certificate.
        data: The bytes of its statement.
        view: The path, derived from the statement.
    """

    issued: Certificate
    data: bytes
    view: Path


def find_published(store: Store, workshop: ProjectServices, certificate_id: str) -> PublishedCertificate:
    """Return a certificate with the path of its view: by identifier, by the unmistakable end of it, or `latest`.

    The path lies in the data folder if the user's settings leave out certificates of that question type, unless the
    view is in the project already: what revokes it must then be published beside it.

    Raises:
        NotFoundError: The project has no such certificate.
        IntegrityError: Its bytes are not those that were issued, or its stored name is not one of its names.
    """
    entry = archive.find(store, workshop.project.key, certificate_id)
    data = archive.read(store, entry.id)
    issued = parse(data)
    return PublishedCertificate(issued, data, view_places(workshop, entry, issued)[0])


def view_places(workshop: ProjectServices, entry: CertificateSummary, issued: Certificate) -> tuple[Path, ...]:
    """Return where the Markdown view of a certificate may be published; first where it is published now.

    See `view_path` for the arguments and errors, and `find_published` for which of them is first.
    """
    inside, outside = (view_path(each, entry, issued) for each in (workshop, replace(workshop, publish=False)))
    is_inside = issued.verdict.kind in workshop.published_types or inside.is_file()
    return tuple(dict.fromkeys((inside, outside) if is_inside else (outside, inside)))


def view_path(workshop: ProjectServices, entry: CertificateSummary, issued: Certificate) -> Path:
    """Return where the Markdown view of a certificate is published.

    Folder and name come from the statement. The archive only says which of the statement's names it is.

    Args:
        workshop: Where files are published.
        entry: What the archive lists.
        issued: The certificate that its statement gives.

    Raises:
        IntegrityError: The statement is of another certificate, or the stored name is not one of its names.
    """
    if issued.id != entry.id or entry.view_name not in accepted_view_names(issued):
        shown = plain(entry.view_name)[:_LONGEST_SHOWN]
        raise IntegrityError(
            f"the archive lists certificate {entry.id} under {shown!r}, which is not a name of it",
            remedy="run `esper certificates repair`, or restore a backup",
        )
    return _folder(workshop, issued.agent) / "certificates" / entry.view_name


def page_path(view: Path) -> Path:
    """Return where the HTML page of a certificate stands beside its Markdown view."""
    return view.with_suffix(".html")


def publish_page(store: Store, workshop: ProjectServices, certificate_id: str) -> Path:
    """Write the HTML page of a certificate as this version lays it out, and return where it is."""
    published = find_published(store, workshop, certificate_id)
    page = page_path(published.view)
    _write(page, render_html(published.data).encode())
    return page


def record_path(view: Path) -> Path:
    """Return where the signed envelope of a certificate stands beside its view."""
    return view.with_suffix(".dsse.json")


def proof_path(view: Path) -> Path:
    """Return where the proof that a certificate is in the log stands beside its view."""
    return view.with_suffix(".tlog-proof")


NOTICE_SUFFIX = ".notice.json"


def _kept_proof(path: Path, envelope: bytes, newest: bytes) -> bytes:
    """Return the proof that was published before, where it still shows an envelope to be in this log; else the newest.

    One of an older checkpoint is as good, and people keep it under version control.
    """
    try:
        # What lies there may be anybody's: a pipe would never end.
        kept = read_plain(path, MOST_BYTES)
        before = kept.data if kept else b""
        old, new = read_proof(before), read_proof(newest)
    except (EsperError, OSError):
        return newest
    same = old.checkpoint.origin == new.checkpoint.origin and old.idx == new.idx
    return before if same and old.checkpoint.size <= new.checkpoint.size and includes(old, envelope) else newest


def _folder(workshop: ProjectServices, agent: str) -> Path:
    return place_of(workshop.project, workshop.home, agent_folder(agent), into_project=workshop.publish).folder


@dataclass(frozen=True, slots=True)
class PublishingPlace:
    """Where documents are published.

    Attributes:
        folder: The folder.
        because: Why there.
    """

    folder: Path
    because: str


def place_of(project: Project, home: Path, name: str = "", *, into_project: bool = True) -> PublishingPlace:
    """Return where an agent's documents are published: in the project where it is ours to write, else in the home.

    It is ours in a git work tree that can be written and whose folder does not lead elsewhere by a symbolic link.

    Args:
        project: The project.
        home: The folder that the program keeps the project's things in.
        name: The agent's folder; empty for the folder of all agents.
        into_project: Whether the person wants it in the project.
    """
    root = Path(project.root)
    wanted = root / PUBLISHED / name
    nearest = _existing(wanted)
    if not into_project:
        reason = "you asked for the data folder"
    elif not project.is_git:
        reason = "the project is not under git"
    elif not (wanted / "certificates").resolve().is_relative_to(root.resolve()):
        reason = f"{PUBLISHED} leads out of the project"
    elif not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        reason = f"{nearest} cannot be written"
    else:
        return PublishingPlace(wanted, "the project is ours to write")
    return PublishingPlace(home / "published" / name, reason)


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())


def _write(path: Path, data: bytes) -> bool:
    """Write a file whole, unless it is so already: a reader sees the old or the new one, whenever this process dies.

    Raises:
        StorageError: It cannot be written.
    """
    with translate_database_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and _has(path, data):
            return False
        _replace(path, data)
        return True


def _has(path: Path, data: bytes) -> bool:
    found = read_plain(path, len(data))
    return found is not None and found.data == data


def _replace(path: Path, data: bytes) -> None:
    """Write a file beside its final place, and rename it.

    The other file has one name, and whoever writes holds its lock. So what a killed process left is found without a
    look at the folder, which may hold millions of files, and is written over.
    """
    scratch = path.with_name(f"{_SCRATCH}{path.name}")
    lock = _lock_scratch(scratch)
    try:
        os.ftruncate(lock, 0)
        with os.fdopen(os.dup(lock), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.fchmod(lock, 0o644)
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    finally:
        locks.release(lock)


def _lock_scratch(scratch: Path) -> int:
    """Return the descriptor of a file that this process alone has locked and that is still there under its name."""
    while True:
        lock = locks.locked(scratch)
        # Whoever had the lock before renamed the file: what was waited for is published now.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), scratch.lstat()):
                return lock
        locks.release(lock)
