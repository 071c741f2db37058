"""Artifacts on a shared database: in its rows up to a size, larger ones in a shared folder."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sqlalchemy import bindparam, delete, select

from esper_agents.atomic_file import atomic_file
from esper_agents.errors import IntegrityError, StorageError, UsageError
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.store import database_clock, timestamp
from esper_agents.storage.tables import artifact

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import ColumnElement

    from esper_agents.storage.store import Store

VARIABLE = "ESPER_ARTIFACT_FOLDER"
MOST_DATABASE_BYTES = 2**20
_ADD = Prepared(
    "INSERT INTO artifact (project_key, sha256, size_bytes, stored_at, data)"
    " VALUES (:project, :sha256, :size, :at, :data) ON CONFLICT (project_key, sha256) DO NOTHING"
)
_DATA = Prepared(
    lambda: select(artifact.c.data).where(
        artifact.c.project_key == bindparam("project"), artifact.c.sha256 == bindparam("sha256")
    )
)


@dataclass(frozen=True, slots=True)
class SharedArtifact:
    """An artifact in a row of the database.

    Attributes:
        sha256: Digest of its bytes.
        size_bytes: Its size.
    """

    sha256: str
    size_bytes: int


class SharedArtifacts:
    """The artifacts of one project that other machines can read."""

    def __init__(self, store: Store, project_key: str) -> None:
        """Use a database, and the folder of `ESPER_ARTIFACT_FOLDER` if it is set.

        Raises:
            UsageError: The folder does not exist.
        """
        self._store, self._project = store, project_key
        self._folder = shared_folder()
        self._shared: set[str] = set()

    def share(self, sha256: str, file: Path, size_bytes: int) -> None:
        """Store a copy for other machines; a large artifact stays on this machine if no folder is set.

        Raises:
            StorageError: The database or the folder cannot be written.
        """
        if sha256 in self._shared:
            return
        if size_bytes <= MOST_DATABASE_BYTES:
            given = {"project": self._project, "sha256": sha256, "size": size_bytes, "data": file.read_bytes()}
            with self._store.writing() as transaction:
                _ADD.rows(transaction.connection, {**given, "at": transaction.at})
        elif self._folder is not None:
            self._copy(file, self._folder / sha256)
        self._shared.add(sha256)

    def open(self, sha256: str) -> BinaryIO | None:
        """Return a stream of an artifact whose digest was checked; None if it is not shared.

        Raises:
            IntegrityError: The stored bytes have another digest.
            StorageError: The database or the folder cannot be read.
        """
        with self._store.reading() as connection:
            data = _DATA.scalar(connection, {"project": self._project, "sha256": sha256})
        if data is not None:
            return _checked(BytesIO(bytes(data)), sha256, "the database")
        stream = _opened(self._folder / sha256) if self._folder is not None else None
        return None if stream is None else _checked(stream, sha256, str(self._folder))

    def digests(self) -> frozenset[str]:
        """Return the digests of the artifacts in the database."""
        with self._store.reading() as connection:
            wanted = select(artifact.c.sha256).where(artifact.c.project_key == self._project)
            return frozenset(connection.scalars(wanted))

    def _copy(self, file: Path, place: Path) -> None:
        try:
            if place.is_file() and place.stat().st_size == file.stat().st_size:
                return
            scratch = place.with_name(f".incoming-{os.urandom(8).hex()}")
            with atomic_file(place, mode=0o644, scratch=scratch) as copy, file.open("rb") as stream:
                while chunk := stream.read(MOST_DATABASE_BYTES):
                    copy.stream.write(chunk)
        except OSError as error:
            raise _unusable(place.parent, error) from error


def unnamed_rows(
    store: Store, project_key: str, named: Collection[str], *, older_than_s: float
) -> tuple[SharedArtifact, ...]:
    """Return the artifacts of a project in the database that nothing references.

    Args:
        store: The database.
        project_key: Key of the project.
        named: Digests that are referenced.
        older_than_s: Minimum age: an event may be about to reference a younger one.
    """
    with store.reading() as connection:
        before = timestamp(int(database_clock(connection) - older_than_s * 1000))
        wanted = select(artifact.c.sha256, artifact.c.size_bytes).where(
            artifact.c.project_key == project_key, artifact.c.stored_at < before
        )
        found = [SharedArtifact(*row) for row in connection.execute(wanted.order_by(artifact.c.sha256))]
    return tuple(each for each in found if each.sha256 not in named)


def remove_rows(store: Store, project_key: str, removed: Collection[SharedArtifact]) -> None:
    """Delete artifacts of a project from the database."""
    with store.writing() as transaction:
        for each in removed:
            is_it: ColumnElement[bool] = artifact.c.sha256 == each.sha256
            transaction.connection.execute(delete(artifact).where(artifact.c.project_key == project_key, is_it))


def shared_folder() -> Path | None:
    """Return the folder of large artifacts; None if none is set.

    Raises:
        UsageError: It does not exist.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_absolute() or not folder.is_dir():
        raise UsageError(f"{VARIABLE} {given!r} is not a folder", remedy="mount it, set another path, or unset it")
    return folder


def _opened(place: Path) -> BufferedReader | None:
    try:
        # Not blocking: anyone who can write to the folder may have put a pipe there.
        number = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(place.parent, error) from error
    stream = os.fdopen(number, "rb")
    if not stat.S_ISREG(os.fstat(number).st_mode):
        stream.close()
        raise IntegrityError(f"{str(place)!r} is not a regular file", remedy="remove it")
    return stream


def _checked(stream: BytesIO | BufferedReader, sha256: str, where: str) -> BinaryIO:
    if hashlib.file_digest(stream, "sha256").hexdigest() != sha256:
        stream.close()
        raise IntegrityError(f"artifact {sha256} is corrupted in {where}", remedy="restore a backup")
    stream.seek(0)
    return stream


def _unusable(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"the folder of shared artifacts {str(folder)!r} cannot be used: {error.strerror}",
        remedy=f"make it accessible, or correct {VARIABLE}",
    )
