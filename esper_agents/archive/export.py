"""Export certificates with proofs, views and keys as a reproducible archive."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.notices import log_notices
from esper_agents.certificates.signing.dsse import envelope_bytes
from esper_agents.certificates.signing.public_keys import as_note_key, as_pem, as_ssh
from esper_agents.certificates.statement import parse
from esper_agents.certificates.views.html import render_html
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.domain.identifier import is_id
from esper_agents.errors import EsperError, IntegrityError, UsageError
from esper_agents.paths import data_folder
from esper_agents.storage.engine import translate_database_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection

    from esper_agents.archive.search.filters import Filter
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.storage.store import Store

README, CHECKER = "export.md", "esper_verify.py"
_UNFIT = re.compile(r"[:+]")
# Members of a listing that belong to the reader, not to the certificate.
_NOT_EXPORTED = frozenset(("position", "origin", "is_trusted", "signer", "key_id"))


@dataclass(frozen=True, slots=True)
class ExportOmission:
    """Certificate omitted from an export.

    Attributes:
        id: Identifier of the certificate.
        why: Reason as text.
        is_tampered: Whether it differs from the issued certificate.
    """

    id: str
    why: str
    is_tampered: bool


@dataclass(frozen=True, slots=True)
class ExportResult:
    """Result of an export.

    Attributes:
        to: File or folder that was written.
        certificates: Number of exported certificates.
        keys: Fingerprints of the exported public keys.
        missing_keys: Fingerprints of signing keys that are not trusted here and so are not exported.
        left_out: Certificates that could not be exported.
    """

    to: Path
    certificates: int
    keys: tuple[str, ...]
    missing_keys: tuple[str, ...]
    left_out: tuple[ExportOmission, ...]


def export(
    store: Store, project_key: str, wanted: Filter, to: Path, public_key: Callable[[str], bytes | None]
) -> ExportResult:
    """Write certificates with everything needed to verify them elsewhere, newest first.

    The same archive gives the same bytes. Existing files are never overwritten; an incomplete export leaves no files.

    Args:
        store: The archive.
        project_key: Key of the project.
        wanted: Filter that selects the certificates.
        to: File that ends in `.tar`, or a folder, which must be new or empty.
        public_key: Returns the trusted public key with a fingerprint.

    Raises:
        UsageError: The target exists already, or its parent folder does not exist.
        StorageError: The target cannot be written.
    """
    _refuse_taken(to)
    written = _Export(store, project_key, wanted, public_key)
    with (
        translate_database_errors(str(to)),
        tempfile.TemporaryDirectory(dir=to.absolute().parent, prefix=".esper-") as scratch,
    ):
        made = Path(scratch, "made")
        if to.suffix == ".tar":
            with tarfile.open(made, "w", format=tarfile.PAX_FORMAT) as tar:
                for name, data in written.files():
                    tar.addfile(_described(name, data), io.BytesIO(data))
        else:
            made.mkdir()
            for name, data in written.files():
                (made / name).parent.mkdir(exist_ok=True)
                (made / name).write_bytes(data)
        _put(made, to)
    return ExportResult(
        to, written.count, tuple(sorted(written.keys)), tuple(sorted(written.missing)), tuple(written.left)
    )


class _Export:
    """Files of an export in order, and its result."""

    def __init__(
        self, store: Store, project_key: str, wanted: Filter, public_key: Callable[[str], bytes | None]
    ) -> None:
        self.count = 0
        self.keys: dict[str, bytes] = {}
        self.missing: set[str] = set()
        self.left: list[ExportOmission] = []
        self._store, self._project_key, self._wanted, self._public_key = store, project_key, wanted, public_key

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield every file with its name, in a fixed order."""
        yield "README.md", (data_folder("certificates") / README).read_bytes()
        yield CHECKER, (data_folder("certificates") / CHECKER).read_bytes()
        lines: list[str] = []
        for entry in archive.pages(self._store, self._project_key, self._wanted):
            try:
                with self._store.reading() as connection:
                    found = list(self._of(connection, entry))
            except EsperError as error:
                self.left.append(ExportOmission(entry.id, error.problem, isinstance(error, IntegrityError)))
                continue
            yield from found
            said = {name: each for name, each in asdict(entry).items() if name not in _NOT_EXPORTED}
            lines.append(json.dumps(said, sort_keys=True, ensure_ascii=True))
            self.count += 1
        yield "index.jsonl", "".join(f"{line}\n" for line in lines).encode("ascii")
        with self._store.reading() as connection:
            origin = transparency_log.origin(connection, transparency_log.log_of(connection, self._project_key))
        for key_id, raw in sorted(self.keys.items()):
            name = f"keys/{_UNFIT.sub('-', key_id).replace('/', '_')}"
            yield f"{name}.pem", as_pem(raw).encode()
            yield f"{name}.pub", f"{as_ssh(raw)}\n".encode()
            yield f"{name}.vkey", f"{as_note_key(raw, origin)}\n".encode()

    def _of(self, connection: Connection, entry: CertificateSummary) -> Iterator[tuple[str, bytes]]:
        if not is_id(entry.id):
            raise IntegrityError(f"{entry.id[:60]!a} is not a certificate ID", remedy="run `esper certificates repair`")
        log_id = transparency_log.log_of(connection, self._project_key)
        envelope = transparency_log.envelope(connection, log_id, entry.id)
        if parse(envelope.payload).id != entry.id:
            raise IntegrityError(
                f"the record of {entry.id} belongs to another certificate", remedy=transparency_log.RESTORE
            )
        stem = f"certificates/{entry.id}"
        yield f"{stem}.dsse.json", envelope_bytes(envelope)
        yield f"{stem}.tlog-proof", transparency_log.proof(connection, log_id, entry.id).encode()
        yield f"{stem}.md", render_markdown(envelope.payload).encode()
        yield f"{stem}.html", render_html(envelope.payload).encode()
        self._keep(envelope.key_id)
        for log_notice in log_notices(transparency_log.notices_about(connection, log_id, entry.id)):
            yield f"{stem}.{log_notice.index}.notice.json", envelope_bytes(log_notice.envelope)
            if log_notice.notice.signature:
                yield f"{stem}.{log_notice.index}.sshsig", log_notice.notice.signature.encode()
            self._keep(log_notice.envelope.key_id)

    def _keep(self, key_id: str) -> None:
        raw = self._public_key(key_id)
        if raw is None:
            self.missing.add(key_id)
        else:
            self.keys[key_id] = raw


def _refuse_taken(to: Path) -> None:
    taken = to.exists() or to.is_symlink()
    is_empty_folder = to.is_dir() and not to.is_symlink() and not any(to.iterdir())
    if taken and (to.suffix == ".tar" or not is_empty_folder):
        raise UsageError(f"{str(to)!r} already exists", remedy="name a new file or folder")
    if not to.absolute().parent.is_dir():
        raise UsageError(f"folder {str(to.absolute().parent)!r} does not exist", remedy="create it, or name another")


def _put(made: Path, to: Path) -> None:
    if made.is_file():
        # Unlike a rename, a link fails if another process created the file in the meantime.
        os.link(made, to)
        return
    made.rename(to)


def _described(name: str, data: bytes) -> tarfile.TarInfo:
    """Return a tar header without time, host or owner."""
    head = tarfile.TarInfo(name)
    head.size, head.mode, head.mtime = len(data), 0o644, 0
    return head
