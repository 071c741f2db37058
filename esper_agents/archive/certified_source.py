"""Source of certified files as it was read, from git or from an unchanged working file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.archive.verification.files import read_inside
from esper_agents.errors import EsperError
from esper_agents.git.trees import contents

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import SourceFile
    from esper_agents.git.trees import Contents

_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_BYTES = 4 * 2**20
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class CertifiedSource:
    """Content of one file at the time of a certificate.

    Attributes:
        path: Path relative to the project.
        origin: Origin of the bytes, or the reason why there are none.
        lines: Lines of the file; None if its bytes are not available.
    """

    path: str
    origin: str
    lines: tuple[str, ...] | None


def certified_sources(root: Path, certificate: Certificate, paths: Collection[str]) -> dict[str, CertifiedSource]:
    """Return the files of a certificate with the bytes that were read, each compared with its certified digest.

    Args:
        root: Folder of the project.
        certificate: The certificate.
        paths: Wanted files; those that the certificate does not list are missing in the result.
    """
    wanted = {file.path: file for file in certificate.examined if file.path in paths}
    found: dict[str, CertifiedSource] = {}
    if certificate.revision.is_git:
        try:
            with contents(root) as objects:
                found = {each.path: each for each in _committed(objects, certificate, wanted.values())}
        except (EsperError, OSError):
            found = {}
    return {path: found.get(path) or _current(root, file) for path, file in wanted.items()}


def current_lines(root: Path, path: str) -> tuple[str, ...] | None:
    """Return the lines of a working file; None if it is missing, outside the project, unreadable or over 4 MiB."""
    data = read_inside(root, path, _MOST_BYTES)
    return None if data is None else tuple(data.decode("utf-8", "replace").splitlines())


def _committed(objects: Contents, certificate: Certificate, files: Collection[SourceFile]) -> Iterator[CertifiedSource]:
    for file in files:
        # The name comes from a certificate: only a full object ID may reach git.
        size = objects.size(file.git_blob) if _OBJECT_ID.fullmatch(file.git_blob) else None
        if size is None or size > _MOST_BYTES:
            continue
        data = b"".join(objects.chunks())
        if sha256(data).hexdigest() == file.sha256:
            is_committed = certificate.revision.commit and file.path not in certificate.revision.dirty
            commit, blob = certificate.revision.commit[:_SHOWN], file.git_blob[:_SHOWN]
            yield _source(file, data, f"at commit {commit}" if is_committed else f"from git object {blob}")


def _current(root: Path, file: SourceFile) -> CertifiedSource:
    data = read_inside(root, file.path, _MOST_BYTES)
    if data is not None and sha256(data).hexdigest() == file.sha256:
        return _source(file, data, "from the working file, which has the certified digest")
    state = "changed since" if data is not None else "is missing or cannot be read"
    return CertifiedSource(file.path, f"not available: not in git, and the working file {state}", None)


def _source(file: SourceFile, data: bytes, origin: str) -> CertifiedSource:
    return CertifiedSource(file.path, origin, tuple(data.decode("utf-8", "replace").splitlines()))
