"""Archive file: a tar with the rows of one project, its artifacts and a list of their digests."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive.transfer.rows import TABLES, as_json, from_json, rows_of
from esper_agents.certificates.log import transparency_log
from esper_agents.errors import InputFileError, IntegrityError, UsageError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.storage.engine import translate_database_errors
from esper_agents.storage.schema_names import HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Table

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.transfer.rows import Row
    from esper_agents.storage.store import Store

FORMAT = "esper-agents-archive-1"
_LIST = "archive.json"
_MEMBER = re.compile(r"rows/[a-z_]{1,40}\.jsonl|artifacts/[0-9a-f]{64}")
_LONGEST_LIST, _LONGEST_ROW = 64 * 2**20, 256 * 2**20
_REMEDY = "export it again: esper archive export FILE"


@dataclass(frozen=True, slots=True)
class ArchiveCounts:
    """Contents of an archive file.

    Attributes:
        file: The file.
        project: Name of the project that it was exported from.
        sessions: Number of sessions.
        certificates: Number of certificates.
        log_entries: Number of entries of the transparency log.
        notes: Number of notes in memory.
        artifacts: Number of files that tools produced.
        size_bytes: Size of the file.
    """

    file: Path
    project: str
    sessions: int
    certificates: int
    log_entries: int
    notes: int
    artifacts: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class UnpackedArchive:
    """Archive file in a folder; each member matches the digest in its list.

    Attributes:
        folder: Folder with the members.
        counts: Number of rows by table, as listed.
        project: Name of the project that it was exported from.
    """

    folder: Path
    counts: dict[str, int]
    project: str

    def rows(self) -> Iterator[tuple[Table, Row]]:
        """Yield the rows by table, checked for their form.

        Raises:
            IntegrityError: A row has another form than its table.
        """
        for table in TABLES:
            with (self.folder / "rows" / f"{table.name}.jsonl").open(encoding="ascii") as lines:
                for line in lines:
                    try:
                        yield table, from_json(table, json.loads(line))
                    except (ValueError, RecursionError) as error:
                        raise _refused(f"a row of {table.name} is not JSON") from error

    def artifacts(self) -> tuple[Path, ...]:
        """Return the files that tools produced; each name is the digest."""
        folder = self.folder / "artifacts"
        return tuple(sorted(folder.iterdir())) if folder.is_dir() else ()


def write_archive(store: Store, place: ProjectPlace, to: Path) -> ArchiveCounts:
    """Write the whole archive of a project to a new file, as one snapshot of the database.

    Raises:
        UsageError: The file exists, or the project shares a log of version 0.1.0 with other projects.
        StorageError: The file cannot be written.
    """
    _refuse_taken(to)
    with (
        translate_database_errors(str(to)),
        tempfile.TemporaryDirectory(dir=to.absolute().parent, prefix=".esper-") as scratch,
    ):
        folder = Path(scratch)
        counts = _write_rows(store, place, folder)
        members = sorted((folder / "rows").iterdir()) + _artifacts(place)
        names = [_name_of(path, folder) for path in members]
        digests = {name: _digest(path) for name, path in zip(names, members, strict=True)}
        listing = {
            "format": FORMAT,
            "schema": HEAD,
            "project": place.project.name,
            "counts": counts,
            "sha256": digests,
        }
        (folder / _LIST).write_text(json.dumps(listing, indent=1, sort_keys=True) + "\n", encoding="ascii")
        made = folder / "made.tar"
        with tarfile.open(made, "w", format=tarfile.PAX_FORMAT) as tar:
            for name, path in ((_LIST, folder / _LIST), *zip(names, members, strict=True)):
                head = tarfile.TarInfo(name)
                head.size, head.mode = path.stat().st_size, 0o600
                with path.open("rb") as stream:
                    tar.addfile(head, stream)
        made.chmod(0o600)
        try:
            # Unlike a rename, a link fails if another process created the file in the meantime.
            to.hardlink_to(made)
        except FileExistsError:
            _refuse_taken(to)
    return counts_of(to, place.project.name, counts, len(_artifacts(place)))


def counts_of(file: Path, project: str, counts: dict[str, int], artifacts: int) -> ArchiveCounts:
    """Return the contents of an archive file from the number of rows by table."""
    return ArchiveCounts(
        file,
        project,
        sessions=counts["session"],
        certificates=counts["certificate"],
        log_entries=counts["log_entry"],
        notes=counts["note"],
        artifacts=artifacts,
        size_bytes=file.stat().st_size,
    )


@contextmanager
def unpacked(file: Path, scratch_in: Path) -> Iterator[UnpackedArchive]:
    """Yield an archive file unpacked into a temporary folder.

    Args:
        file: The archive file.
        scratch_in: Existing folder for the temporary one; remains of killed processes there are removed.

    Raises:
        InputFileError: The file cannot be read.
        IntegrityError: It is not an archive, or a member does not match its digest.
    """
    with tempfile.TemporaryDirectory(dir=scratch_in, prefix=SCRATCH) as scratch:
        folder = Path(scratch)
        try:
            with tarfile.open(file, "r:") as tar:
                digests, counts, project = _unpack(tar, folder)
        except OSError as error:
            raise InputFileError(
                str(file), (error.strerror or "cannot be read").lower(), remedy="name an archive"
            ) from error
        except tarfile.TarError as error:
            raise _refused("it is not a tar file, or is cut short") from error
        for name, digest in digests.items():
            if not (folder / name).is_file() or _digest(folder / name) != digest:
                raise _refused(f"{name} does not match its digest")
        yield UnpackedArchive(folder, counts, project)


SCRATCH = ".import-"


def remove_remains(folder: Path) -> None:
    """Remove the temporary folders that killed imports left in a folder; the caller holds the lock of imports."""
    for remains in folder.glob(f"{SCRATCH}*"):
        shutil.rmtree(remains, ignore_errors=True)


def _write_rows(store: Store, place: ProjectPlace, folder: Path) -> dict[str, int]:
    (folder / "rows").mkdir()
    counts = {}
    with store.reading() as connection:
        log_id = transparency_log.log_of(connection, place.project.key)
        if log_id == transparency_log.SHARED:
            problem = "the project shares the log of version 0.1.0 with other projects"
            raise UsageError(problem, remedy="copy the whole database: esper db backup FILE")
        for table in TABLES:
            with (folder / "rows" / f"{table.name}.jsonl").open("w", encoding="ascii") as lines:
                count = 0
                for row in rows_of(connection, place.project.key, log_id, table):
                    lines.write(json.dumps(as_json(row), sort_keys=True) + "\n")
                    count += 1
            counts[table.name] = count
    return counts


def _artifacts(place: ProjectPlace) -> list[Path]:
    Artifacts(place.artifacts).bring_all()
    found = place.artifacts.glob("[0-9a-f][0-9a-f]/*")
    return sorted(path for path in found if _MEMBER.fullmatch(f"artifacts/{path.name}") and path.is_file())


def _name_of(path: Path, folder: Path) -> str:
    return f"rows/{path.name}" if path.is_relative_to(folder) else f"artifacts/{path.name}"


def _unpack(tar: tarfile.TarFile, folder: Path) -> tuple[dict[str, str], dict[str, int], str]:
    """Write the members of a tar file; only names that this program gives become paths."""
    first = tar.next()
    stream = tar.extractfile(first) if first is not None and first.name == _LIST and first.isreg() else None
    if first is None or stream is None or first.size > _LONGEST_LIST:
        raise _refused(f"its first member is not {_LIST}")
    digests, counts, project = _listing(stream.read())
    wanted = set(digests)
    while (member := tar.next()) is not None:
        stream = tar.extractfile(member) if member.isreg() and member.name in wanted else None
        if stream is None:
            raise _refused(f"its member {member.name[:60]!a} is not listed")
        wanted.remove(member.name)
        path = folder / member.name
        path.parent.mkdir(exist_ok=True)
        with path.open("xb") as copy:
            shutil.copyfileobj(stream, copy)
    if wanted:
        raise _refused(f"its member {min(wanted)} is missing")
    return digests, counts, project


def _listing(data: bytes) -> tuple[dict[str, str], dict[str, int], str]:
    try:
        listing = json.loads(data)
        form, schema, project = listing["format"], listing["schema"], str(listing["project"])
        digests = {str(name): str(digest) for name, digest in listing["sha256"].items()}
        counts = {table.name: int(listing["counts"][table.name]) for table in TABLES}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _refused(f"{_LIST} is not the list of an archive") from error
    if form != FORMAT or schema != HEAD:
        problem = (
            f"the archive has format {str(form)[:40]!a} and schema {str(schema)[:10]!a}, not {FORMAT!r} and {HEAD!r}"
        )
        raise UsageError(
            problem, remedy="export and import it with the same version: pip install --upgrade esper-agents"
        )
    tables = {f"rows/{table.name}.jsonl" for table in TABLES}
    if not all(map(_MEMBER.fullmatch, digests)) or {name for name in digests if name.startswith("rows/")} != tables:
        raise _refused(f"{_LIST} lists other members than an archive has")
    return digests, counts, project


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _refuse_taken(to: Path) -> None:
    if to.exists() or to.is_symlink():
        raise UsageError(f"{str(to)!r} already exists", remedy="name a new file")
    if not to.absolute().parent.is_dir():
        raise UsageError(f"folder {str(to.absolute().parent)!r} does not exist", remedy="create it, or name another")


def _refused(problem: str) -> IntegrityError:
    return IntegrityError(f"not an archive: {problem}", remedy=_REMEDY)
