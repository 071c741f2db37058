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
from esper_agents.certificates.render import render_markdown
from esper_agents.domain.memory import NoteKind
from esper_agents.memory import notes
from esper_agents.memory.documents import document
from esper_agents.storage.engine import in_our_words
from esper_agents.tools.git import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.certificates.archive import Entry
    from esper_agents.domain.project import Project
    from esper_agents.orchestration.workshop import Workshop
    from esper_agents.storage.store import Store


_SCRATCH = ".esper-"
_STALE_S = 3600


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
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", agent).strip(".")
    return place_of(workshop.project, workshop.home, name, into_project=workshop.publish).folder


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
