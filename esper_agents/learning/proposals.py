"""Proposed skills: files in the data directory that are loaded only after a user accepts them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.atomic_file import write_atomically
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.errors import NotFoundError, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FILE = "SKILL.md"
_TARGET = ".esper/skills"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MOST_BYTES = 200_000


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed skill that is not accepted yet.

    Attributes:
        name: Its name.
        text: The text of its `SKILL.md`: the displayed text is the accepted text.
    """

    name: str
    text: str


def write_proposals(home: Path, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write proposed skills, replacing older ones of the same names, and return their files.

    Args:
        home: The project's folder in the data directory.
        texts: The texts of their `SKILL.md`, by name.

    Raises:
        UsageError: A name is not a valid skill name. Names come from stored events and models.
        StorageError: The files cannot be written.
    """
    for name in texts:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name[:60]!r} is not a valid skill name", remedy="use lower-case letters, digits and `-`"
            )
    return tuple(_write(home / "proposals" / name / _FILE, text) for name, text in texts.items())


def proposals(home: Path) -> tuple[Proposal, ...]:
    """Return the proposed skills that are not accepted yet, by name."""
    folder = home / "proposals"
    named = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    found = ((name, _read(folder / name / _FILE)) for name in named if _NAME.fullmatch(name))
    return tuple(Proposal(name, text) for name, text in found if text)


def find_proposal(home: Path, name: str) -> Proposal:
    """Return one proposed skill.

    Raises:
        NotFoundError: There is no proposed skill of that name.
    """
    known = {proposal.name: proposal for proposal in proposals(home)}
    if name not in known:
        raise NotFoundError("proposed skill", name, known, listing="esper retrospect")
    return known[name]


def accept(home: Path, root: Path, proposal: Proposal) -> Path:
    """Move a proposed skill into the project, as the user has read it, and return its file.

    Args:
        home: The project's folder in the data directory.
        root: The project.
        proposal: The proposed skill as displayed.

    Raises:
        UsageError: The project has a skill of that name, or its skill folder is a link to a folder outside the project.
        StorageError: The file cannot be written.
    """
    target = root / _TARGET / proposal.name / _FILE
    if not target.parent.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"{_TARGET} is outside the project", remedy="replace the link with a folder")
    if target.parent.exists():
        where = target.parent.relative_to(root)
        raise UsageError(f"the project has {str(where)!r} already", remedy="rename or delete it first")
    _write(target, proposal.text)
    waiting = home / "proposals" / proposal.name
    (waiting / _FILE).unlink(missing_ok=True)
    waiting.rmdir()
    return target


def _read(file: Path) -> str:
    try:
        found = read_plain(file, _MOST_BYTES, follow=False)
        return found.data.decode() if found and len(found.data) <= _MOST_BYTES else ""
    except (OSError, ValueError):
        return ""


def _write(file: Path, text: str) -> Path:
    """Write a file atomically."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text.encode(), mode=0o644, is_synced=False)
    except OSError as error:
        problem = f"{str(file)!r} cannot be written: {(error.strerror or 'unknown reason').lower()}"
        raise StorageError(problem, remedy="free some space, or make its folder writable") from error
    return file
