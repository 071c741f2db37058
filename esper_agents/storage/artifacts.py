"""Artifact files stored by content digest: written atomically and never changed."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

from esper_agents.atomic_file import atomic_file
from esper_agents.domain.evidence import Artifact
from esper_agents.errors import IntegrityError, NotFoundError, StorageError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from esper_agents.storage.shared_artifacts import SharedArtifacts

_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


# The artifact folders of the open projects on shared databases, each with what was opened for it.
_open: dict[Path, list[SharedArtifacts]] = {}


def connect(folder: Path, shared: SharedArtifacts) -> None:
    """Let the artifacts in a folder be shared until `disconnect`."""
    _open.setdefault(folder, []).append(shared)


def disconnect(folder: Path, shared: SharedArtifacts) -> None:
    """End the effect of `connect`."""
    others = [each for each in _open.get(folder, ()) if each is not shared]
    if others:
        _open[folder] = others
    else:
        _open.pop(folder, None)


def shared_of(folder: Path) -> SharedArtifacts | None:
    """Return where the artifacts of a folder are shared; None if they are on this machine only."""
    found = _open.get(folder)
    return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """A stored artifact file.

    Attributes:
        path: Path of the file.
        size_bytes: Size of the file.
    """

    path: Path
    size_bytes: int


class Artifacts:
    """The artifact store of one project."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is created when the first artifact is stored."""
        self._folder = folder

    def keep(self, file: Path, name: str, media_type: str) -> Artifact:
        """Store a copy of a file; equal bytes are stored once.

        Args:
            file: The source file.
            name: Display name of the artifact.
            media_type: Such as `application/json`.

        Raises:
            StorageError: The file cannot be read, or the disk is full.
        """
        try:
            with file.open("rb") as stream:
                return self._keep(stream, _NO_NAME.sub("_", name), media_type)
        except OSError as error:
            raise StorageError(
                f"artifact {name!r} cannot be stored: {error.strerror}", remedy=f"check {str(self._folder)!r}"
            ) from error

    def keep_text(self, data: bytes, name: str, media_type: str) -> Artifact:
        """Store the bytes of a text; if they exist already, only the file's age is reset.

        Raises:
            StorageError: The disk is full.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        try:
            if self._place(sha256).is_file():
                # Reset the age, so that an artifact about to be referenced by a row is not deleted.
                os.utime(self._place(sha256))
                self._share(sha256, len(data))
                return Artifact(name, sha256, len(data), media_type)
            return self._keep(BytesIO(data), name, media_type)
        except OSError as error:
            raise StorageError(
                f"{name!r} cannot be stored: {error.strerror}", remedy=f"check {str(self._folder)!r}"
            ) from error

    def path(self, sha256: str) -> Path:
        """Return the path of the artifact with a digest; on a shared database it is brought to this machine.

        Raises:
            NotFoundError: There is no such artifact.
            IntegrityError: Its bytes do not match the digest.
            StorageError: The database, the shared folder or the disk cannot be used.
        """
        place = self._place(sha256) if _SHA256.fullmatch(sha256) else None
        if place is not None and not place.is_file():
            self._bring(sha256)
        if place is None or not place.is_file():
            raise NotFoundError("artifact", sha256, (), listing="esper certificates show latest")
        with place.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != sha256:
                raise IntegrityError(f"artifact {sha256} is corrupted", remedy="restore a backup")
        return place

    def bring_all(self) -> None:
        """Bring all artifacts of the shared database to this machine; see `path`."""
        shared = shared_of(self._folder)
        for sha256 in shared.digests() if shared is not None else ():
            if not self._place(sha256).is_file():
                self._bring(sha256)

    def unnamed(self, named: Collection[str], *, older_than_s: float) -> tuple[StoredArtifact, ...]:
        """Return the unreferenced artifacts, including incomplete copies.

        Args:
            named: Digests that are referenced.
            older_than_s: Minimum age: a row may be about to reference a younger file.
        """
        latest = time.time() - older_than_s
        found = []
        for place in (*self._folder.glob("[0-9a-f][0-9a-f]/*"), *self._folder.glob(".incoming-*")):
            try:
                seen = place.lstat()
            except OSError:
                continue
            if stat.S_ISREG(seen.st_mode) and seen.st_mtime < latest and place.name not in named:
                found.append(StoredArtifact(place, seen.st_size))
        return tuple(sorted(found, key=lambda each: each.path))

    def _keep(self, stream: BinaryIO, name: str, media_type: str) -> Artifact:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        digest, size = hashlib.sha256(), 0
        scratch = self._folder / f".incoming-{os.urandom(8).hex()}"
        with atomic_file(scratch, mode=0o600, scratch=scratch) as copy:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                copy.stream.write(chunk)
            copy.path = self._place(digest.hexdigest())
            copy.path.parent.mkdir(exist_ok=True, mode=0o700)
        self._share(digest.hexdigest(), size)
        return Artifact(name, digest.hexdigest(), size, media_type)

    def _share(self, sha256: str, size_bytes: int) -> None:
        if (shared := shared_of(self._folder)) is not None:
            shared.share(sha256, self._place(sha256), size_bytes)

    def _bring(self, sha256: str) -> None:
        shared = shared_of(self._folder)
        stream = shared.open(sha256) if shared is not None else None
        if stream is None:
            return
        with stream:
            try:
                self._keep(stream, sha256, "")
            except OSError as error:
                raise StorageError(
                    f"artifact {sha256} cannot be stored: {error.strerror}", remedy=f"check {str(self._folder)!r}"
                ) from error

    def _place(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256
