"""Publishes views of what the database holds: any time again, each file whole or not at all."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates import archive
from esper_agents.certificates.render import render_markdown
from esper_agents.domain.memory import NoteKind
from esper_agents.memory import notes
from esper_agents.memory.documents import document
from esper_agents.storage.engine import in_our_words
from esper_agents.tools.git import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.certificates.archive import Entry
    from esper_agents.orchestration.workshop import Workshop
    from esper_agents.storage.store import Store


def publish(store: Store, workshop: Workshop, certificate_id: str, agents: Iterable[str]) -> None:
    """Write the view of a certificate, its record beside it, and the documents of the agents that took part.

    What a person deleted or changed is written again as the database has it.
    """
    entry = archive.find(store, workshop.project.key, certificate_id)
    data = archive.read(store, entry.id)
    view = view_path(workshop, entry)
    _write(view, render_markdown(data).encode())
    _write(record_path(view), data)
    for agent in agents:
        known = notes.listing(store, workshop.project.key, agent=agent)
        for kind in NoteKind:
            text = document(agent, kind, [each for each in known if each.kind is kind])
            _write(_folder(workshop, agent) / f"{kind}.md", text.encode())


def view_path(workshop: Workshop, entry: Entry) -> Path:
    """Return where the Markdown view of a certificate is published."""
    return _folder(workshop, entry.agent) / "certificates" / entry.view_name


def record_path(view: Path) -> Path:
    """Return where the bytes of a certificate stand beside its view."""
    return view.with_suffix(".intoto.json")


def _folder(workshop: Workshop, agent: str) -> Path:
    """Return the folder of an agent's documents: the project's where it is ours to write, else the program's own.

    It is ours in a git work tree that can be written and whose folder does not lead elsewhere by a symbolic link.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", agent).strip(".")
    root = Path(workshop.project.root)
    wanted = root / PUBLISHED / name
    is_inside = (wanted / "certificates").resolve().is_relative_to(root.resolve())
    if workshop.publish and workshop.project.is_git and is_inside and os.access(_existing(wanted), os.W_OK):
        return wanted
    return workshop.home / "published" / name


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())


def _write(path: Path, data: bytes) -> None:
    """Write a file whole: a reader sees the old one or the new one, whenever this process dies.

    Raises:
        StorageError: It cannot be written.
    """
    with in_our_words(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != data:
            _replace(path, data)


def _replace(path: Path, data: bytes) -> None:
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".esper-")
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
