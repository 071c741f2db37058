"""Publish views of archived certificates; repeatable, and atomic per file."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.pruned_pages import pages_since
from esper_agents.atomic_file import write_atomically
from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log.note import MOST_BYTES, includes, read_proof
from esper_agents.certificates.notices import log_notices
from esper_agents.certificates.signing.dsse import envelope_bytes
from esper_agents.certificates.signing.public_keys import as_ssh
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.certificates.signing.trusted_keys import trusted
from esper_agents.certificates.statement import parse
from esper_agents.certificates.views.file_names import accepted_view_names, agent_folder
from esper_agents.certificates.views.html import render_html
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.domain.plain_text import plain
from esper_agents.errors import EsperError, IntegrityError, UsageError
from esper_agents.memory import notes
from esper_agents.memory.documents import document
from esper_agents.paths import GIT_ATTRIBUTES, PUBLISHED, PUBLISHED_KEYS, home
from esper_agents.paths import RECORD_SUFFIX as RECORD_SUFFIX  # noqa: PLC0414 - exported
from esper_agents.storage import locks
from esper_agents.storage.engine import translate_database_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.certificates.signing.dsse import Envelope
    from esper_agents.certificates.signing.key_history import LogNotice
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.memory import NoteKind
    from esper_agents.domain.notice import LogNoticeStatement
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store


NOTICE_SUFFIX = ".notice.json"
_SCRATCH = ".esper-"
_ATTRIBUTES = b"""\
# Written by esper: certificates are generated, and reviewers need no diff of them. Edit this file to change that.
*/certificates/* linguist-generated -diff
keys/*.pub linguist-generated
"""
_LONGEST_SHOWN = 200
# Marker near the beginning of generated memory documents.
_OURS, _HEAD_BYTES = b"Rendered from the database", 4096


def publish(store: Store, place: ProjectPlace, certificate_id: str) -> tuple[Path, ...]:
    """Write a certificate's views, its envelope, proof and notices, and the memory documents of its agents.

    Files that a user deleted or changed are restored from the database.

    Returns:
        Files that were written because they differed.
    """
    published = find_published(store, place, certificate_id)
    with store.reading() as connection:
        wanted = _files(connection, transparency_log.log_of(connection, place.project.key), published)
        pins.renew(connection, home(), store.where, place.project.key)
    if published.issued.issued_at < pages_since(place.home):
        del wanted[page_path(published.view)]
    wanted |= _memory(store, place, (definition.agent for definition in published.issued.definitions))
    _add_git_attributes(Path(place.project.root), published.view)
    return tuple(path for path, data in wanted.items() if _write(path, data))


def _add_git_attributes(root: Path, view: Path) -> None:
    """Write the attributes of published files into the project, unless the user has a file there."""
    folder = root / PUBLISHED
    file = folder / GIT_ATTRIBUTES
    if view.is_relative_to(folder) and not os.path.lexists(file):
        _write(file, _ATTRIBUTES)


def publish_memory(store: Store, place: ProjectPlace, agents: Iterable[str]) -> tuple[Path, ...]:
    """Write the current memory documents of the given agents; see `publish`."""
    return tuple(path for path, data in _memory(store, place, agents).items() if _write(path, data))


def write_document(folder: Path, agent: str, kind: NoteKind, text: str, *, replace: bool = False) -> Path:
    """Write one memory document to a folder that the user chose, and return its path.

    Raises:
        UsageError: Another file exists there, and `replace` is false.
    """
    path = folder / agent_folder(agent) / f"{kind}.md"
    with translate_database_errors(str(path)):
        if path.exists() and not replace and not (path.is_file() and _has(path, text.encode())):
            raise UsageError(f"another file exists at {str(path)!r}", remedy="name another folder, or add --replace")
    _write(path, text.encode())
    return path


def _memory(store: Store, place: ProjectPlace, agents: Iterable[str]) -> dict[Path, bytes]:
    wanted = {}
    for agent in dict.fromkeys(agents):
        folder = _folder(place, agent)
        for kind, kept in notes.of_agent(store, place.project.key, agent).items():
            wanted[_memory_path(place, folder, agent, kind)] = document(agent, kind, kept).encode()
    return wanted


def _memory_path(place: ProjectPlace, folder: Path, agent: str, kind: NoteKind) -> Path:
    """Return the published path of a memory document, which never replaces a hand-written one."""
    path = folder / f"{kind}.md"
    try:
        found = read_plain(path, _HEAD_BYTES)
        is_ours = found is not None and _OURS in found.data
    except FileNotFoundError:
        is_ours = True
    except (OSError, ValueError):
        is_ours = False
    return path if is_ours else place.home / "published" / agent_folder(agent) / path.name


def _files(connection: Connection, log_id: int, published: PublishedCertificate) -> dict[Path, bytes]:
    """Return the published files of a certificate: its views, envelope and proof, and each later notice about it."""
    view = published.view
    sealed = transparency_log.envelope(connection, log_id, published.issued.id)
    envelope = envelope_bytes(sealed)
    proof = transparency_log.proof(connection, log_id, published.issued.id).encode()
    wanted = {
        view: render_markdown(published.data).encode(),
        page_path(view): render_html(published.data).encode(),
        record_path(view): envelope,
        proof_path(view): _kept_proof(proof_path(view), envelope, proof),
    }
    key = trusted(home(), None).public_key(sealed.key_id)
    if key is not None:
        wanted[key_path(view, sealed.key_id)] = f"{as_ssh(key)}\n".encode()
    return wanted | notice_contents(
        view, log_notices(transparency_log.notices_about(connection, log_id, published.issued.id))
    )


def key_path(view: Path, key_id: str) -> Path:
    """Return the path of the public key that signed a certificate, given its view; the name is its fingerprint."""
    name = key_id.replace(":", "-").replace("/", "_").replace("+", "-")
    return view.parent.parent.parent / PUBLISHED_KEYS / f"{name}.pub"


def publish_notice(record: Path, notice: LogNoticeStatement, envelope: Envelope) -> None:
    """Write a notice about a colleague's certificate next to its envelope, under the ID of the notice.

    The numbers of entries belong to the log of the colleague.
    """
    stem = view_of(record).with_suffix(f".{notice.id}")
    _write(stem.with_name(f"{stem.name}{NOTICE_SUFFIX}"), envelope_bytes(envelope))
    if notice.signature:
        _write(stem.with_name(f"{stem.name}.sshsig"), notice.signature.encode())


def write_published(path: Path, data: bytes) -> bool:
    """Write a published file unless it has this content; return whether it was written.

    Raises:
        StorageError: The file cannot be written.
    """
    return _write(path, data)


def notice_contents(view: Path, notices: Iterable[LogNotice]) -> dict[Path, bytes]:
    """Return the notice files next to a view, with the log's notices about its certificate."""
    contents = {}
    for notice in notices:
        contents[view.with_suffix(f".{notice.index}{NOTICE_SUFFIX}")] = envelope_bytes(notice.envelope)
        if notice.notice.signature:
            contents[view.with_suffix(f".{notice.index}.sshsig")] = notice.notice.signature.encode()
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


def find_published(store: Store, place: ProjectPlace, certificate_id: str) -> PublishedCertificate:
    """Return a certificate with the path of its view, by ID, unique end of an ID, or `latest`.

    The path is in the data folder if the user's settings exclude certificates of that question type, unless the
    view is in the project already: revocations must then be published next to it.

    Raises:
        NotFoundError: The project has no such certificate.
        IntegrityError: Its bytes differ from those issued, or its stored name is not one of its names.
    """
    entry = archive.find(store, place.project.key, certificate_id)
    data = archive.read(store, entry.id)
    issued = parse(data)
    return PublishedCertificate(issued, data, view_places(place, entry, issued)[0])


def view_places(place: ProjectPlace, entry: CertificateSummary, issued: Certificate) -> tuple[Path, ...]:
    """Return the possible paths of a certificate's Markdown view; the current one first.

    See `view_path` for the arguments and errors, and `find_published` for the order.
    """
    inside, outside = (view_path(each, entry, issued) for each in (place, replace(place, publish=False)))
    is_inside = issued.verdict.kind in place.published_types() or inside.is_file()
    return tuple(dict.fromkeys((inside, outside) if is_inside else (outside, inside)))


def view_path(place: ProjectPlace, entry: CertificateSummary, issued: Certificate) -> Path:
    """Return the published path of a certificate's Markdown view.

    Folder and name are derived from the statement. The archive only selects one of the statement's names.

    Args:
        place: Project with the places of its certificates.
        entry: Listing row of the certificate.
        issued: Certificate parsed from its statement.

    Raises:
        IntegrityError: The statement belongs to another certificate, or the stored name is not one of its names.
    """
    if issued.id != entry.id or entry.view_name not in accepted_view_names(issued):
        shown = plain(entry.view_name)[:_LONGEST_SHOWN]
        raise IntegrityError(
            f"the archive lists certificate {entry.id} under {shown!r}, which is not one of its names",
            remedy="run `esper certificates repair`, or restore a backup",
        )
    return _folder(place, issued.agent) / "certificates" / entry.view_name


def published_views(place: ProjectPlace, entry: CertificateSummary, data: bytes) -> tuple[Path, ...]:
    """Return the existing Markdown views of a certificate, in the project and in the data directory.

    Args:
        place: Project with the places of its certificates.
        entry: Listing row of the certificate.
        data: The bytes of its statement.

    Raises:
        IntegrityError: The statement is of another certificate, or the stored name is not one of its names.
    """
    return tuple(view_place for view_place in view_places(place, entry, parse(data)) if view_place.is_file())


def page_path(view: Path) -> Path:
    """Return the path of the HTML page next to a Markdown view."""
    return view.with_suffix(".html")


def publish_page(store: Store, place: ProjectPlace, certificate_id: str) -> Path:
    """Write the HTML page of a certificate in the current layout, and return its path."""
    published = find_published(store, place, certificate_id)
    if published.issued.issued_at < pages_since(place.home):
        return write_page(place, published.issued.id, published.data)
    page = page_path(published.view)
    _write(page, render_html(published.data).encode())
    return page


def write_page(place: ProjectPlace, certificate_id: str, data: bytes) -> Path:
    """Write the HTML page of a certificate of others to the data directory, and return its path.

    Args:
        place: Project with the places of its certificates.
        certificate_id: ID of the certificate, parsed from its statement.
        data: Bytes of the statement.
    """
    page = place.home / "published" / "pages" / f"{certificate_id}.html"
    _write(page, render_html(data).encode())
    return page


def record_path(view: Path) -> Path:
    """Return the path of the signed envelope next to a view."""
    return view.with_suffix(RECORD_SUFFIX)


def view_of(record: Path) -> Path:
    """Return the path of the Markdown view next to a signed envelope."""
    return record.with_name(record.name.removesuffix(RECORD_SUFFIX) + ".md")


def proof_path(view: Path) -> Path:
    """Return the path of the inclusion proof next to a view."""
    return view.with_suffix(".tlog-proof")


def _kept_proof(path: Path, envelope: bytes, newest: bytes) -> bytes:
    """Return the published proof if it still proves inclusion in this log; else the newest.

    A proof under an older checkpoint is equally valid, and users keep it under version control.
    """
    try:
        # The file may be planted: reading a pipe would never end.
        kept = read_plain(path, MOST_BYTES)
        before = kept.data if kept else b""
        old, new = read_proof(before), read_proof(newest)
    except (EsperError, OSError):
        return newest
    same = old.checkpoint.origin == new.checkpoint.origin and old.idx == new.idx
    return before if same and old.checkpoint.size <= new.checkpoint.size and includes(old, envelope) else newest


def _folder(place: ProjectPlace, agent: str) -> Path:
    return place_of(place.project, place.home, agent_folder(agent), into_project=place.publish).folder


@dataclass(frozen=True, slots=True)
class PublishingPlace:
    """Folder for published documents.

    Attributes:
        folder: Path of the folder.
        because: Reason for the choice.
    """

    folder: Path
    because: str


def place_of(project: Project, home: Path, name: str = "", *, into_project: bool = True) -> PublishingPlace:
    """Return the publishing folder of an agent: in the project if it may be written, else in the data directory.

    The project may be written if it is a writable git work tree whose folder is not a symbolic link to elsewhere.

    Args:
        project: Project of the documents.
        home: Folder of the project in the data directory.
        name: Folder name of the agent; empty for the folder of all agents.
        into_project: Whether the user wants documents in the project.
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
    """Write a file atomically unless it has this content: readers see the old or the new file, even after a crash.

    Raises:
        StorageError: The file cannot be written.
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
    """Write a temporary file in the same folder, and rename it.

    The temporary file has a fixed name and its writer holds its lock. The remains of a killed process are thus found
    without listing the folder, which may contain millions of files, and are overwritten.
    """
    scratch = path.with_name(f"{_SCRATCH}{path.name}")
    lock = _lock_scratch(scratch)
    try:
        write_atomically(path, data, mode=0o644, scratch=scratch, descriptor=os.dup(lock))
    finally:
        locks.release(lock)


def _lock_scratch(scratch: Path) -> int:
    """Return the descriptor of a file that this process has locked and that still exists under its name."""
    while True:
        lock = locks.locked(scratch)
        # The previous lock owner renamed the file, so the content is published now.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), scratch.lstat()):
                return lock
        locks.release(lock)
