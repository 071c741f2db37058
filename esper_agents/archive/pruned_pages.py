"""Removal of the HTML pages of older certificates; they are rendered again on demand."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.search.filters import Filter
from esper_agents.atomic_file import write_atomically
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.errors import IntegrityError
from esper_agents.storage.engine import translate_database_errors

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.storage.store import Store

_FILE = "pages_since"
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


@dataclass(frozen=True, slots=True)
class PrunablePages:
    """HTML pages that can be removed, or were removed.

    Attributes:
        before: Time of issue; pages of earlier certificates are not published any more.
        pages: The pages.
        size_bytes: Their size.
    """

    before: str
    pages: tuple[Path, ...]
    size_bytes: int


def pages_since(home: Path) -> str:
    """Return the time of issue from which on certificates get an HTML page; empty for all.

    Args:
        home: Folder of the project in the data directory.
    """
    with suppress(OSError):
        found = read_plain(home / _FILE, 100, follow=False)
        text = found.data.decode("ascii", "replace").strip() if found else ""
        return text if _TIME.fullmatch(text) else ""
    return ""


def prunable_pages(store: Store, place: ProjectPlace, days: int) -> PrunablePages:
    """Return the published HTML pages of certificates of the archive that are older than a number of days."""
    from esper_agents.archive.publishing import page_path, view_places
    from esper_agents.certificates.statement import parse

    moment = datetime.now(UTC) - timedelta(days=days)
    before = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    found: dict[Path, int] = {}
    for entry in archive.pages(store, place.project.key, Filter(until=before)):
        with suppress(IntegrityError):
            for view in view_places(place, entry, parse(archive.read(store, entry.id))):
                with suppress(OSError):
                    status = os.lstat(page_path(view))
                    if stat.S_ISREG(status.st_mode):
                        found[page_path(view)] = status.st_size
    return PrunablePages(max(before, pages_since(place.home)), tuple(sorted(found)), sum(found.values()))


def prune_pages(place: ProjectPlace, chosen: PrunablePages) -> PrunablePages:
    """Remove pages, and publish none for these certificates from now on; return what was removed.

    Raises:
        StorageError: A page cannot be removed, or the data directory cannot be written.
    """
    place.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with translate_database_errors(str(place.home)):
        # Before the first page is removed: verification must not report it as missing.
        write_atomically(place.home / _FILE, f"{chosen.before}\n".encode(), mode=0o600)
    removed = []
    for page in chosen.pages:
        with translate_database_errors(str(page)), suppress(FileNotFoundError):
            page.unlink()
            removed.append(page)
    return replace(chosen, pages=tuple(removed))
