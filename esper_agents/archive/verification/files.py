"""Check that the certified files and their citations are unchanged."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.certificates.statement import parse
from esper_agents.domain.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from esper_agents.domain.evidence import SourceFile
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.git.commit_files import CommitFiles

_MOST_REMEMBERED = 64 * 1024
_MOST_BYTES = 64 * 2**20
_LINE_END = re.compile(r"\r\n|\r|\n")


class SubjectState(StrEnum):
    """State of a certified file compared with its digest."""

    VALID = "valid"
    STALE = "stale"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class SubjectCheck:
    """Check result of one certified file.

    Attributes:
        path: Path relative to the project.
        state: State of the file.
        detail: Details in one line.
        citations: For each finding in the file, whether its cited line is unchanged; empty if the file is unreadable.
    """

    path: str
    state: SubjectState
    detail: str
    citations: tuple[Check, ...] = ()


def verify_subjects(data: bytes, root: Path, commit: CommitFiles | None = None) -> tuple[SubjectCheck, ...]:
    """Compare every certified file with the working tree, or with a commit; empty if no file was certified.

    Never reads outside the root, whatever the paths and links.

    Args:
        data: Bytes of the statement.
        root: Folder of the project.
        commit: Files to compare with instead of those of the folder.

    Raises:
        IntegrityError: The bytes are not a certificate.
        EvidenceError: git cannot read a file of the commit.
    """
    certificate = parse(data)
    claims: dict[str, list[Diagnostic]] = {}
    for finding in certificate.findings:
        claims.setdefault(finding.claim.location.path, []).append(finding.claim)
    # Every file is read once, so that all its checks concern the same bytes.
    paths = {file.path for file in certificate.examined}
    read = {path: _read(path, root) for path in paths} if commit is None else _committed(paths, commit)
    found = {path: _found(each, claims.get(path, ())) for path, each in read.items()}
    return tuple(_compared(file, found[file.path]) for file in certificate.examined)


def read_inside(root: Path, name: str, most: int) -> bytes | None:
    """Return the bytes of a file; None if it is missing, unreadable, too large or outside the root.

    Args:
        root: Folder of the project.
        name: Path relative to it, from an untrusted record.
        most: Maximum number of bytes.
    """
    path = _inside(root, name)
    try:
        file = read_plain(path, most) if path is not None and path.is_file() else None
    except OSError:
        return None
    return file.data if file is not None and len(file.data) <= most else None


@dataclass(frozen=True, slots=True)
class _Found:
    """Current content of a file: its digest and citation checks, or the reason why there is none."""

    sha256: str = ""
    citations: tuple[Check, ...] = ()
    state: SubjectState = SubjectState.VALID
    detail: str = ""


def _found(read: bytes | _Found, claims: Sequence[Diagnostic]) -> _Found:
    return read if isinstance(read, _Found) else _Found(sha256(read).hexdigest(), _citations(claims, read))


def _committed(paths: set[str], commit: CommitFiles) -> dict[str, bytes | _Found]:
    read = commit.read(sorted(paths), _MOST_BYTES)
    absent = _Found(state=SubjectState.MISSING, detail=f"file does not exist at commit {commit.commit[:12]}")
    unread = _Found(state=SubjectState.UNREADABLE, detail="this clone does not have it, or it is too large")
    found: dict[str, bytes | _Found] = {}
    for path in paths:
        data = read.get(path)
        found[path] = data if data is not None else unread if path in read else absent
    return found


def _read(name: str, root: Path) -> bytes | _Found:
    path = _inside(root, name)
    if path is None:
        return _Found(state=SubjectState.UNREADABLE, detail="path is outside the project")
    try:
        file = read_plain(path, _MOST_BYTES) if path.is_file() else None
    except OSError as error:
        return _Found(state=SubjectState.UNREADABLE, detail=error.strerror or "file cannot be read")
    if file is None:
        return _Found(state=SubjectState.MISSING, detail="file does not exist")
    if len(file.data) > _MOST_BYTES:
        return _Found(state=SubjectState.STALE, detail=f"file is larger than {_MOST_BYTES} bytes")
    return file.data


def _compared(file: SourceFile, found: _Found) -> SubjectCheck:
    if found.state is not SubjectState.VALID:
        return SubjectCheck(file.path, found.state, found.detail)
    if found.sha256 == file.sha256:
        return SubjectCheck(file.path, SubjectState.VALID, f"sha256:{found.sha256}", found.citations)
    detail = f"expected sha256:{file.sha256}, found sha256:{found.sha256}"
    return SubjectCheck(file.path, SubjectState.STALE, detail, found.citations)


def _inside(root: Path, name: str) -> Path | None:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or "\0" in name:
        return None
    try:
        path = (root / relative).resolve()
        return path if path.is_relative_to(root.resolve()) else None
    except (OSError, RuntimeError):
        return None


def _citations(claims: Sequence[Diagnostic], content: bytes) -> tuple[Check, ...]:
    if not claims:
        return ()
    # The newest certificates of a file cite the same content.
    places = _recent_places(content) if len(content) <= _MOST_REMEMBERED else _places(content)
    return tuple(_citation(claim, places) for claim in claims)


def _places(content: bytes) -> dict[str, dict[int, None]]:
    """Return the numbers of the lines with each text."""
    places: dict[str, dict[int, None]] = {}
    for number, line in enumerate(_LINE_END.split(_decoded(content)), start=1):
        places.setdefault(_words(line), {})[number] = None
    return places


_recent_places = lru_cache(maxsize=32)(_places)


def _decoded(content: bytes) -> str:
    """Decode Python source with its declared encoding; undecodable bytes are preserved."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return content.decode(encoding, "surrogateescape")
    except (SyntaxError, UnicodeError, LookupError):
        # The declared encoding may be unknown, not a text encoding, or wrong.
        return content.decode("utf-8-sig", "surrogateescape")


def _citation(claim: Diagnostic, places: dict[str, dict[int, None]]) -> Check:
    name, excerpt = f"{claim.rule} at {claim.location}", _words(claim.excerpt)
    if not excerpt:
        return Check(name, CheckOutcome.CANNOT_DECIDE, "the certificate has no excerpt of the line")
    found = places.get(excerpt, {})
    if claim.location.line in found:
        return Check(name, CheckOutcome.HOLDS, "cited line unchanged")
    if found:
        return Check(name, CheckOutcome.FAILS, f"cited line moved to {', '.join(map(str, islice(found, 5)))}")
    return Check(name, CheckOutcome.FAILS, "cited line not found")


def _words(line: str) -> str:
    return " ".join(plain(line).split())
