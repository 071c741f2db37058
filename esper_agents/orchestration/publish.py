"""Publishes views of what the database holds: any time again, each file whole or not at all."""

from __future__ import annotations

import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates import archive
from esper_agents.certificates.html import render_html
from esper_agents.certificates.log import log, pins
from esper_agents.certificates.log.note import MOST_BYTES, includes, read_proof
from esper_agents.certificates.notices import log_notices
from esper_agents.certificates.render import render_markdown
from esper_agents.certificates.sealing.dsse import envelope_bytes
from esper_agents.certificates.sealing.plain_file import read_plain
from esper_agents.errors import EsperError, UsageError
from esper_agents.memory import notes
from esper_agents.memory.documents import document
from esper_agents.paths import home
from esper_agents.storage.engine import in_our_words
from esper_agents.tools.git import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from esper_agents.certificates.archive import Entry
    from esper_agents.certificates.sealing.rotation import LogNotice
    from esper_agents.domain.memory import NoteKind
    from esper_agents.domain.project import Project
    from esper_agents.orchestration.workshop import Workshop
    from esper_agents.storage.store import Store


_SCRATCH = ".esper-"
_LONGEST_FOLDER = 100
_STALE_S = 3600
# What our memory documents say near their beginning.
_OURS, _HEAD_BYTES = b"Rendered from the database", 4096


def publish(store: Store, workshop: Workshop, certificate_id: str, agents: Iterable[str]) -> tuple[Path, ...]:
    """Write a certificate's views, what vouches for it beside them, and the documents of the agents that took part.

    What a person deleted or changed is written again as the database has it.

    Returns:
        The files that were not as they are to be.
    """
    entry = archive.find(store, workshop.project.key, certificate_id)
    with store.reading() as connection:
        wanted = _files(connection, entry, archive.read(store, entry.id), view_path(workshop, entry))
        pins.renew(connection, home(), store.where)
    wanted |= _memory(store, workshop, agents)
    return tuple(path for path, data in wanted.items() if _write(path, data))


def publish_memory(store: Store, workshop: Workshop, agents: Iterable[str]) -> tuple[Path, ...]:
    """Write the documents of some agents as they are now; see `publish`."""
    return tuple(path for path, data in _memory(store, workshop, agents).items() if _write(path, data))


def write_document(folder: Path, agent: str, kind: NoteKind, text: str, *, replace: bool = False) -> Path:
    """Write one memory document to a folder of the person's choice, and return where it is.

    Raises:
        UsageError: Something else stands there, and it is not to be replaced.
    """
    path = folder / _folder_name(agent) / f"{kind}.md"
    with in_our_words(str(path)):
        if path.exists() and not replace and not (path.is_file() and _has(path, text.encode())):
            raise UsageError(f"something else is at {str(path)!r}", remedy="name another folder, or add --replace")
    _write(path, text.encode())
    return path


def _memory(store: Store, workshop: Workshop, agents: Iterable[str]) -> dict[Path, bytes]:
    wanted = {}
    for agent in dict.fromkeys(agents):
        folder = _folder(workshop, agent)
        for kind, kept in notes.of_agent(store, workshop.project.key, agent).items():
            wanted[_memory_path(workshop, folder, agent, kind)] = document(agent, kind, kept).encode()
    return wanted


def _memory_path(workshop: Workshop, folder: Path, agent: str, kind: NoteKind) -> Path:
    """Return where a memory document is published: never in place of one that people wrote by hand."""
    path = folder / f"{kind}.md"
    try:
        found = read_plain(path, _HEAD_BYTES)
        is_ours = found is not None and _OURS in found.data
    except FileNotFoundError:
        is_ours = True
    except (OSError, ValueError):
        is_ours = False
    return path if is_ours else workshop.home / "published" / _folder_name(agent) / path.name


def _files(connection: Connection, entry: Entry, data: bytes, view: Path) -> dict[Path, bytes]:
    """Return what stands where of a certificate: its views, envelope and proof, and each later entry about it."""
    envelope = envelope_bytes(log.envelope(connection, entry.id))
    proof = log.proof(connection, entry.id).encode()
    wanted = {
        view: render_markdown(data).encode(),
        page_path(view): render_html(data).encode(),
        record_path(view): envelope,
        proof_path(view): _kept_proof(proof_path(view), envelope, proof),
    }
    return wanted | notice_contents(view, log_notices(log.notices_about(connection, entry.id)))


def notice_contents(view: Path, notices: Iterable[LogNotice]) -> dict[Path, bytes]:
    """Return the files beside a view that hold notices of the log about its certificate."""
    contents = {}
    for each in notices:
        contents[view.with_suffix(f".{each.index}{NOTICE_SUFFIX}")] = envelope_bytes(each.envelope)
        if each.notice.signature:
            contents[view.with_suffix(f".{each.index}.sshsig")] = each.notice.signature.encode()
    return contents


def view_path(workshop: Workshop, entry: Entry) -> Path:
    """Return where the Markdown view of a certificate is published."""
    return _folder(workshop, entry.agent) / "certificates" / entry.view_name


def page_path(view: Path) -> Path:
    """Return where the HTML page of a certificate stands beside its Markdown view."""
    return view.with_suffix(".html")


def publish_page(store: Store, workshop: Workshop, certificate_id: str) -> Path:
    """Write the HTML page of a certificate as this version lays it out, and return where it is."""
    entry = archive.find(store, workshop.project.key, certificate_id)
    page = page_path(view_path(workshop, entry))
    _write(page, render_html(archive.read(store, entry.id)).encode())
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


def _folder(workshop: Workshop, agent: str) -> Path:
    return place_of(workshop.project, workshop.home, _folder_name(agent), into_project=workshop.publish).folder


def _folder_name(agent: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", agent)[:_LONGEST_FOLDER].strip(".") or "_"


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
    with in_our_words(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and _has(path, data):
            return False
        _replace(path, data)
        return True


def _has(path: Path, data: bytes) -> bool:
    found = read_plain(path, len(data))
    return found is not None and found.data == data


def _replace(path: Path, data: bytes) -> None:
    for left in path.parent.glob(f"{_SCRATCH}*"):
        # What a process that died here left behind; a living one is done with its own long before.
        if time.time() - left.stat().st_mtime > _STALE_S:
            left.unlink(missing_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=_SCRATCH)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(scratch).chmod(0o644)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
