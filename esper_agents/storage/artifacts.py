"""Artifact files stored by content digest: written atomically and never changed."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
import time
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from esper_agents.domain.evidence import Artifact
from esper_agents.errors import IntegrityError, NotFoundError, StorageError

if TYPE_CHECKING:
    from collections.abc import Collection

_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """A file that is kept.

    Attributes:
        path: Where it lies.
        size_bytes: Its size.
    """

    path: Path
    size_bytes: int


class Artifacts:
    """The artifacts of one project."""

    def __init__(self, folder: Path) -> None:
        """Take the folder they lie in; it is made when the first one is kept."""
        self._folder = folder

    def keep(self, file: Path, name: str, media_type: str) -> Artifact:
        """Keep a copy of a file; the same bytes are kept once.

        Args:
            file: Where it is now.
            name: What to call it.
            media_type: Such as `application/json`.

        Raises:
            StorageError: It cannot be read, or there is no room for it.
        """
        try:
            with file.open("rb") as stream:
                return self._keep(stream, _NO_NAME.sub("_", name), media_type)
        except OSError as error:
            raise StorageError(
                f"artifact {name!r} cannot be kept: {error.strerror}", remedy=f"look at {str(self._folder)!r}"
            ) from error

    def keep_text(self, data: bytes, name: str, media_type: str) -> Artifact:
        """Keep the bytes of a text; those that are there already only become young again.

        Raises:
            StorageError: There is no room for them.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        try:
            if self._place(sha256).is_file():
                # Young again: what is about to be named by a row is not swept away.
                os.utime(self._place(sha256))
                return Artifact(name, sha256, len(data), media_type)
            return self._keep(BytesIO(data), name, media_type)
        except OSError as error:
            raise StorageError(
                f"{name!r} cannot be kept: {error.strerror}", remedy=f"look at {str(self._folder)!r}"
            ) from error

    def path(self, sha256: str) -> Path:
        """Return where the artifact with a digest lies.

        Raises:
            NotFoundError: There is none.
            IntegrityError: Its bytes are not what they were.
        """
        place = self._place(sha256) if _SHA256.fullmatch(sha256) else None
        if place is None or not place.is_file():
            raise NotFoundError("artifact", sha256, (), listing="esper certificates show latest")
        with place.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != sha256:
                raise IntegrityError(f"artifact {sha256} is not what it was", remedy="restore a backup")
        return place

    def unnamed(self, named: Collection[str], *, older_than_s: float) -> tuple[StoredArtifact, ...]:
        """Return what nothing names, a copy that was cut off included.

        Args:
            named: Digests that something names.
            older_than_s: Only what has been there so long: a row may be about to name what is younger.
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
        handle, scratch = tempfile.mkstemp(dir=self._folder, prefix=".incoming-")
        try:
            with os.fdopen(handle, "wb") as copy:
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
                    copy.write(chunk)
                copy.flush()
                os.fsync(copy.fileno())
            place = self._place(digest.hexdigest())
            place.parent.mkdir(exist_ok=True, mode=0o700)
            Path(scratch).replace(place)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
        return Artifact(name, digest.hexdigest(), size, media_type)

    def _place(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256
