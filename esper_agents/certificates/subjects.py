"""Checks whether the files that a certificate judged are still what they were, and its citations with them."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.certificates.check import Check, Outcome
from esper_agents.certificates.plain_text import plain
from esper_agents.certificates.statement import parse

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import SourceFile

_MOST_BYTES = 64 * 2**20
_LINE_END = re.compile(r"\r\n|\r|\n")


class SubjectState(StrEnum):
    """What became of a file since it was judged."""

    VALID = "valid"
    STALE = "stale"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class SubjectCheck:
    """One file of a certificate, looked at again.

    Attributes:
        path: Relative to the project.
        state: What became of it.
        detail: What was found, in one line.
        citations: For each finding in the file, whether its line still says what it said; empty where it is unreadable.
    """

    path: str
    state: SubjectState
    detail: str
    citations: tuple[Check, ...] = ()


def verify_subjects(data: bytes, root: Path) -> tuple[SubjectCheck, ...]:
    """Look again at every file that a certificate judged, in the tree at hand; none where nothing was examined.

    Reads nothing outside the root, whatever paths and links say.

    Args:
        data: The statement's bytes.
        root: The project's folder.

    Raises:
        IntegrityError: The bytes are not a certificate.
    """
    certificate = parse(data)
    return tuple(_look_again(certificate, file, root) for file in certificate.examined)


def _look_again(certificate: Certificate, file: SourceFile, root: Path) -> SubjectCheck:
    path = _inside(root, file.path)
    if path is None:
        return SubjectCheck(file.path, SubjectState.UNREADABLE, "it leads out of the project")
    try:
        if not path.is_file():
            return SubjectCheck(file.path, SubjectState.MISSING, "there is no such file")
        if path.stat().st_size > _MOST_BYTES:
            return SubjectCheck(file.path, SubjectState.STALE, f"it has grown over {_MOST_BYTES} bytes")
        content = path.read_bytes()
    except OSError as error:
        return SubjectCheck(file.path, SubjectState.UNREADABLE, error.strerror or "it cannot be read")
    citations = _citations(certificate, file.path, content)
    digest = sha256(content).hexdigest()
    if digest == file.sha256:
        return SubjectCheck(file.path, SubjectState.VALID, f"sha256:{digest}", citations)
    return SubjectCheck(file.path, SubjectState.STALE, f"sha256:{file.sha256} has become sha256:{digest}", citations)


def _inside(root: Path, name: str) -> Path | None:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or "\0" in name:
        return None
    try:
        path = (root / relative).resolve()
        return path if path.is_relative_to(root.resolve()) else None
    except (OSError, RuntimeError):
        return None


def _citations(certificate: Certificate, path: str, content: bytes) -> tuple[Check, ...]:
    text = _decoded(content)
    lines = [_words(line) for line in _LINE_END.split(text)]
    claims = [finding.claim for finding in certificate.findings if finding.claim.location.path == path]
    return tuple(
        _citation(f"{claim.rule} at {claim.location}", claim.location.line, _words(claim.excerpt), lines)
        for claim in claims
    )


def _decoded(content: bytes) -> str:
    """Return Python source as its own declaration says it is encoded; what that cannot read is kept apart."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    except (SyntaxError, UnicodeDecodeError):
        encoding = "utf-8-sig"
    return content.decode(encoding, "surrogateescape")


def _citation(name: str, line: int, excerpt: str, lines: list[str]) -> Check:
    if not excerpt:
        return Check(name, Outcome.CANNOT_DECIDE, "the record holds no excerpt")
    if 1 <= line <= len(lines) and lines[line - 1] == excerpt:
        return Check(name, Outcome.HOLDS, "the line still says what it said")
    moved = [number for number, each in enumerate(lines, start=1) if each == excerpt]
    if moved:
        return Check(name, Outcome.FAILS, f"the line stands at {', '.join(map(str, moved[:5]))} now")
    return Check(name, Outcome.FAILS, "the line is gone")


def _words(line: str) -> str:
    return " ".join(plain(line).split())
