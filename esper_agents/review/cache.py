"""Cache of review reports, keyed by the digest of all their inputs.

A report follows from the code of the review, the Python that runs it, the choice of rules, the bytes of every file,
and the settings files next to them. Reports are stored in a folder that no other user may enter; a folder that others
may write to is not used. A damaged entry counts as missing, and is replaced.

Whole reports are stored, not tables of single files: reading a file's tables takes three quarters of the time of
computing them.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.atomic_file import write_atomically
from esper_agents.domain.evidence import SourceFile
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity
from esper_agents.paths import home
from esper_agents.review.report import FileSize, ReviewReport, SuppressedDiagnostic
from esper_agents.review.source import LARGEST_NOTEBOOK_BYTES, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from esper_agents.review.discover import DiscoveredFile

MOST_BYTES = 64 * 1024 * 1024
_SUFFIX = ".json"
_DIGEST_LENGTH = 64


class Cache:
    """Cache of review reports.

    Attributes:
        folder: Folder of the reports; created with the first one.
        most_bytes: Maximum size; the least recently used reports are deleted first.
        clean: Returns a report without secrets, as it is stored; None stores it as it is.
    """

    def __init__(
        self, folder: Path, *, most_bytes: int = MOST_BYTES, clean: Callable[[ReviewReport], ReviewReport] | None = None
    ) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self.clean = clean

    def entry(
        self,
        root: Path,
        candidates: Sequence[DiscoveredFile],
        *,
        categories: Collection[Category] | None,
        rules: Collection[str] | None,
        unread: Sequence[Unreadable] = (),
    ) -> CacheEntry | None:
        """Return the cache entry for a review; None if its inputs cannot be digested.

        Args:
            root: The project's folder.
            candidates: The files to review.
            categories: Categories of rules; None means all.
            rules: Named rules; None means all.
            unread: Items among the files that cannot be read.
        """
        from esper_agents.review.catalogue import has_foreign_rules

        if has_foreign_rules():
            return None
        digests = {candidate.path: _digest_of(candidate.file) for candidate in candidates}
        choice = {
            "program": program_digest(),
            "python": sys.version,
            "categories": None if categories is None else sorted(set(categories)),
            "rules": None if rules is None else sorted(set(rules)),
            "files": [(candidate.path, candidate.is_explicit, digests[candidate.path]) for candidate in candidates],
            "unread": sorted((each.path, each.problem) for each in unread),
            "settings": _settings(root, candidates),
        }
        key = sha256(json.dumps(choice, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
        return CacheEntry(self, key, digests)


def review_cache(clean: Callable[[ReviewReport], ReviewReport]) -> Cache:
    """Return the cache of the user's data directory; excerpts in it hold no secrets of the code.

    Args:
        clean: Returns a report without secrets.
    """
    return Cache(home() / "cache" / "review", clean=clean)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """Cache entry of one report.

    Attributes:
        cache: The cache.
        key: Digest of all inputs, as 64 hex digits.
        digests: Digests of the files when the key was computed, by path.
    """

    cache: Cache
    key: str
    digests: dict[str, str]

    def read(self) -> ReviewReport | None:
        """Return the report; None if there is no intact one."""
        with _opened(self.cache.folder) as folder:
            content = b"" if folder is None else _content(folder, self.key + _SUFFIX)
        body = content[_DIGEST_LENGTH + 1 :]
        if not body or content[:_DIGEST_LENGTH] != sha256(body).hexdigest().encode():
            return None
        try:
            return _restored(json.loads(body))
        except (ValueError, TypeError, KeyError):
            return None

    def write(self, report: ReviewReport) -> None:
        """Store a report, unless a file has changed since the key was computed; a write error is ignored."""
        if any(self.digests.get(each.path) != each.sha256 for each in report.examined):
            return
        kept = report if self.cache.clean is None else self.cache.clean(report)
        body = json.dumps(asdict(kept), separators=(",", ":")).encode("utf-8", "surrogatepass")
        content = sha256(body).hexdigest().encode() + b"\n" + body
        if len(content) > self.cache.most_bytes:
            return
        with suppress(OSError):
            self.cache.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(OSError), _opened(self.cache.folder) as folder:
            if folder is not None:
                _put(folder, self.key + _SUFFIX, content)
                _shrink(folder, self.cache.most_bytes)


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """Yield the open folder; None if it is missing, has another owner, or other users may enter it."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield folder if _is_private(os.fstat(folder)) else None
    finally:
        os.close(folder)


def _is_private(facts: os.stat_result) -> bool:
    return facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def _content(folder: int, name: str) -> bytes:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or not _is_private(facts):
            return b""
        # Reading renews the time by which `_shrink` deletes.
        os.utime(descriptor)
        return stream.read()


def _put(folder: int, name: str, content: bytes) -> None:
    write_atomically(Path(name), content, mode=0o600, folder=folder, is_synced=False)


def _shrink(folder: int, most_bytes: int) -> None:
    """Delete the least recently used reports until the rest fits."""
    kept: list[tuple[float, str, int]] = []
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
            kept.append((facts.st_mtime, name, facts.st_size))
    total = sum(size for _, _, size in kept)
    for _, name, size in sorted(kept):
        if total <= most_bytes:
            return
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        total -= size


@cache
def program_digest() -> str:
    """Return a digest of the code of the review."""
    package = Path(__file__).parent
    files = [path for folder in (package, package.parent / "domain") for path in folder.rglob("*") if path.is_file()]
    digest = sha256()
    for file in sorted(each for each in files if each.suffix != ".pyc"):
        digest.update(file.relative_to(package.parent).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _settings(root: Path, candidates: Iterable[DiscoveredFile]) -> list[tuple[str, str]]:
    """Return the settings files that a review may read, with their digests."""
    from esper_agents.review.versions import settings_around

    return [(str(file), _digest_of(file)) for file in settings_around(root, (each.path for each in candidates))]


def _digest_of(file: Path) -> str:
    """Return the digest of a file's content, or the reason it has none."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST_NOTEBOOK_BYTES:
            return f"not read: {stat.S_IFMT(facts.st_mode)} {facts.st_size}"
        return sha256(stream.read()).hexdigest()


def _restored(kept: dict[str, Any]) -> ReviewReport:
    parts: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in kept.items()}
    parts["claims"] = tuple(_claim(each) for each in kept["claims"])
    parts["examined"] = tuple(SourceFile(**each) for each in kept["examined"])
    parts["unreadable"] = tuple(Unreadable(**each) for each in kept["unreadable"])
    parts["silenced"] = tuple(SuppressedDiagnostic(_claim(each["claim"]), each["reason"]) for each in kept["silenced"])
    parts["sizes"] = tuple(FileSize(**each) for each in kept["sizes"])
    return ReviewReport(**parts)


def _claim(kept: dict[str, Any]) -> Diagnostic:
    typed = {
        "severity": Severity(kept["severity"]),
        "category": Category(kept["category"]),
        "confidence": Confidence(kept["confidence"]),
        "location": Location(**kept["location"]),
    }
    return Diagnostic(**{**kept, **typed})
