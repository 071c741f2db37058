"""Check that the certified files and their citations are unchanged."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass
from enum import StrEnum
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


def verify_subjects(data: bytes, root: Path) -> tuple[SubjectCheck, ...]:
    """Compare every certified file with the working tree; empty if no file was certified.

    Never reads outside the root, whatever the paths and links.

    Args:
        data: Bytes of the statement.
        root: Folder of the project.

    Raises:
        IntegrityError: The bytes are not a certificate.
    """
    certificate = parse(data)
    claims: dict[str, list[Diagnostic]] = {}
    for finding in certificate.findings:
        claims.setdefault(finding.claim.location.path, []).append(finding.claim)
    # Every file is read once, so that all its checks concern the same bytes.
    found = {path: _found(path, root, claims.get(path, ())) for path in {file.path for file in certificate.examined}}
    return tuple(_compared(file, found[file.path]) for file in certificate.examined)


@dataclass(frozen=True, slots=True)
class _Found:
    """Current content of a file: its digest and citation checks, or the reason why there is none."""

    sha256: str = ""
    citations: tuple[Check, ...] = ()
    state: SubjectState = SubjectState.VALID
    detail: str = ""


def _found(name: str, root: Path, claims: Sequence[Diagnostic]) -> _Found:
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
    return _Found(sha256(file.data).hexdigest(), _citations(claims, file.data))


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
    lines = [_words(line) for line in _LINE_END.split(_decoded(content))]
    places: dict[str, dict[int, None]] = {}
    for number, line in enumerate(lines, start=1):
        places.setdefault(line, {})[number] = None
    return tuple(_citation(claim, places) for claim in claims)


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
