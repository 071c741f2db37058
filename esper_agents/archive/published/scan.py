"""Find the published envelopes of a project; follows no link and reads no file."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, replace
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates.views.file_names import agent_folder
from esper_agents.domain.plain_text import plain
from esper_agents.paths import PUBLISHED, RECORD_SUFFIX
from esper_agents.storage.compiled_statements import Prepared, among

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store

MOST_ENVELOPES = 100_000
_AT_ONCE = 500
CERTIFICATES = "certificates"
_OWN_VIEWS = "SELECT agent, view_name FROM certificate WHERE project_key = :project"
_NAMED = {dialect: Prepared(f"{_OWN_VIEWS} AND view_name {names}") for dialect, names in among("names").items()}


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """Published file that is not read as a certificate.

    Attributes:
        path: Path relative to the project, as plain text.
        why: Reason as text.
    """

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class EnvelopeScan:
    """Published envelopes of a project.

    Attributes:
        stamps: Size, times and inode of each regular file, by path relative to the project.
        refused: Links, FIFOs, folders and unreadable folders instead of envelopes.
    """

    stamps: dict[str, str]
    refused: tuple[RefusedFile, ...]


def published_by_others(local: Store | None, project: Project) -> EnvelopeScan:
    """Return the published envelopes of a project that its local archive did not publish.

    Args:
        local: The local archive; None if there is none.
        project: The project.
    """
    found = scan_published(Path(project.root))
    if local is None:
        return found
    own = _published_here(local, project.key, {_view_of(path) for path in found.stamps}) if found.stamps else ()
    kept = {
        path: stamp for path, stamp in found.stamps.items() if not own or (_folder_of(path), _view_of(path)) not in own
    }
    return replace(found, stamps=kept)


def scan_published(root: Path) -> EnvelopeScan:
    """Return the published envelopes of a project, at most the first 100,000 by path."""
    folder, refused = root / PUBLISHED, list[RefusedFile]()
    if not folder.is_dir():
        return EnvelopeScan({}, ())
    if not folder.resolve().is_relative_to(root.resolve()):
        return EnvelopeScan({}, (RefusedFile(PUBLISHED, "it leads out of the project"),))
    names = list(_envelopes(folder, refused))
    if len(names) > MOST_ENVELOPES:
        why = f"{len(names)} envelopes; only the first {MOST_ENVELOPES:,} by path are read"
        refused.append(RefusedFile(PUBLISHED, why))
    found: dict[str, str] = {}
    for agent, file in nsmallest(MOST_ENVELOPES, names) if len(names) > MOST_ENVELOPES else sorted(names):
        name = f"{agent}/{CERTIFICATES}/{file}"
        path = f"{PUBLISHED}/{name}"
        try:
            status = os.lstat(f"{root}/{path}")
        except OSError as error:
            refused.append(_refused(path, error.strerror or "cannot be read"))
            continue
        if stat.S_ISREG(status.st_mode):
            found[path] = f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"
        else:
            refused.append(_refused(path, _kind(status.st_mode)))
    return EnvelopeScan(found, tuple(refused))


def _envelopes(folder: Path, refused: list[RefusedFile]) -> Iterator[tuple[str, str]]:
    """Yield agent folder and name of each file that is named like an envelope."""
    for agent in _names(folder, folder, refused):
        inner = folder / agent / CERTIFICATES
        if (folder / agent).is_symlink() or inner.is_symlink():
            refused.append(_refused(f"{PUBLISHED}/{agent}", "a symbolic link"))
        elif inner.is_dir():
            for name in _names(inner, folder, refused, ending=RECORD_SUFFIX):
                if os.fsencode(name).isascii() and agent.isascii():
                    yield agent, name
                else:
                    where = f"{PUBLISHED}/{agent}/{CERTIFICATES}/{name}"
                    refused.append(_refused(where, "no certificate has such a name"))


def _names(folder: Path, base: Path, refused: list[RefusedFile], *, ending: str = "") -> list[str]:
    """Return names in a folder; not its entries, which take four times the memory in a folder of a million files."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.endswith(ending)]
    except OSError as error:
        shown = f"{PUBLISHED}/{folder.relative_to(base).as_posix()}".removesuffix("/.")
        refused.append(_refused(shown, error.strerror or "cannot be read"))
        return []


def _refused(path: str, why: str) -> RefusedFile:
    return RefusedFile(plain(path), why.lower())


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a folder" if stat.S_ISDIR(mode) else "not a regular file"


def _published_here(local: Store, project_key: str, names: set[str]) -> set[tuple[str, str]]:
    """Return agent folder and name of the views, among the given names, that the local archive publishes."""
    wanted, found = sorted(names), set[tuple[str, str]]()
    with local.reading() as connection:
        for start in range(0, len(wanted), _AT_ONCE):
            given = {"project": project_key, "names": json.dumps(wanted[start : start + _AT_ONCE])}
            rows = _NAMED[connection.dialect.name].rows(connection, given)
            found |= {(agent_folder(str(agent)), str(name)) for agent, name in rows}
    return found


def own_envelopes_naming(local: Store, project: Project, certificate_id: str) -> list[Path]:
    """Return the published envelopes of those certificates of a local archive that name a certificate.

    The index does not contain them: see `published_by_others`.
    """
    from sqlalchemy import select

    from esper_agents.storage.tables import certificate as table
    from esper_agents.storage.tables import certificate_relation as relation

    wanted = select(table.c.agent, table.c.view_name).join(relation, relation.c.position == table.c.position)
    wanted = wanted.where(relation.c.other == certificate_id, table.c.project_key == project.key)
    with local.reading() as connection:
        rows = connection.execute(wanted.distinct()).all()
    folder = Path(project.root, PUBLISHED)
    names = ((agent_folder(each.agent), each.view_name.removesuffix(".md") + RECORD_SUFFIX) for each in rows)
    return sorted(folder / agent / CERTIFICATES / name for agent, name in names)


def _view_of(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(RECORD_SUFFIX) + ".md"


def _folder_of(path: str) -> str:
    return path.rsplit("/", 3)[1]
