"""Bring the index of published certificates up to date with the files of the project."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive.inspection import keyring
from esper_agents.archive.published import index
from esper_agents.archive.published.index import FileStanding, IndexedFile
from esper_agents.archive.verification.signature import signature_check
from esper_agents.certificates.check import CheckOutcome
from esper_agents.certificates.signing.dsse import read_envelope
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.certificates.statement import parse
from esper_agents.errors import IntegrityError
from esper_agents.git.process import configured, git
from esper_agents.git.repository import is_shallow, known_commits, repository_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from sqlalchemy import Connection

    from esper_agents.archive.published.scan import EnvelopeScan
    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.certificates.signing.dsse import Envelope
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store

# A larger envelope is verified by its path; certificates of ten thousand files are below 3 MiB.
MOST_BYTES = 16 * 2**20
_AT_ONCE = 200
_KEYS, _REPOSITORY = "keys", "repository"


@dataclass(frozen=True, slots=True)
class _Envelope:
    """Published envelope with a certificate that is not indexed yet, or is.

    Attributes:
        file: The file, with its standing as far as the signature decides it.
        sealed: The envelope.
        certificate: The certificate; None if the index contains it already.
    """

    file: IndexedFile
    sealed: Envelope
    certificate: Certificate | None


class Synchronization:
    """One comparison of the index with the published files of a project."""

    def __init__(self, local: Store | None, indexed: Store, project: Project, files: EnvelopeScan) -> None:
        """Read the trusted keys and the repository.

        Args:
            local: Local archive, whose own certificates are not indexed; None if there is none.
            indexed: The index.
            project: The project.
            files: Its published files; see `published_by_others`.
        """
        self._local, self._index, self._root = local, indexed, Path(project.root)
        self._files = files.stamps
        if local is None:
            self._keyring = keyring(project)
        else:
            with local.reading() as connection:
                self._keyring = keyring(project, connection)
        self._repository = _Repository(self._root)

    def run(self, on_begin: Callable[[int], None]) -> None:
        """Index new and changed files, and forget those that no longer exist.

        Args:
            on_begin: Called with the number of files to read, if there are any.
        """
        keys = _fingerprint(self._keyring)
        with self._index.reading() as connection:
            known = index.indexed_files(connection)
            has_new_keys = index.setting(connection, _KEYS) != keys
            moved_to = self._moved_to(connection, known.values())
        gone = known.keys() - self._files.keys()
        changed = [path for path, stamp in self._files.items() if path not in known or known[path].stamp != stamp]
        again = [
            path
            for path, file in known.items()
            if path not in gone
            and (
                (has_new_keys and file.key_id and file.standing is not FileStanding.FOREIGN)
                or (moved_to and file.standing is FileStanding.FOREIGN)
            )
        ]
        wanted = sorted({*changed, *again})
        if gone:
            with self._index.writing() as transaction:
                index.drop_files(transaction.connection, gone)
                index.place_certificates(transaction.connection, _certificates(known[path] for path in gone))
        if wanted:
            on_begin(len(wanted))
        for start in range(0, len(wanted), _AT_ONCE):
            self._read_some(wanted[start : start + _AT_ONCE], known)
        if has_new_keys:
            with self._index.writing() as transaction:
                index.keep_setting(transaction.connection, _KEYS, keys)
        if wanted:
            self._keep_repository()

    def _keep_repository(self) -> None:
        with self._index.reading() as connection:
            moved_to = self._moved_to(connection, index.indexed_files(connection).values())
        if moved_to:
            with self._index.writing() as transaction:
                index.keep_setting(transaction.connection, _REPOSITORY, moved_to)

    def _moved_to(self, connection: Connection, files: Iterable[IndexedFile]) -> str:
        """Return the state of the repository if files of other repositories are to be judged again; else empty."""
        if all(each.standing is not FileStanding.FOREIGN for each in files):
            return ""
        state = self._repository.state()
        return "" if index.setting(connection, _REPOSITORY) == state else state

    def _read_some(self, paths: Collection[str], known: Mapping[str, IndexedFile]) -> None:
        with self._index.reading() as connection:
            read = [self._read(path, lambda digest: index.certificate_with(connection, digest)) for path in paths]
        refused = [each for each in read if isinstance(each, IndexedFile)]
        envelopes = self._of_this_repository([each for each in read if isinstance(each, _Envelope)])
        local = self._local_digests(each.file.certificate_id for each in envelopes)
        affected = _certificates(known[path] for path in paths if path in known)
        with self._index.writing() as transaction:
            for each in envelopes:
                file, payload = _compared_with_local(each, local), each.sealed.payload
                if file.standing in {FileStanding.TRUSTED, FileStanding.UNTRUSTED}:
                    file = _compared_with_indexed(transaction.connection, each)
                    is_new = not index.digest_of_certificate(transaction.connection, file.certificate_id)
                    if is_new and file.standing is not FileStanding.REFUSED:
                        index.add_certificate(transaction, each.certificate or parse(payload), payload)
                    affected.add(file.certificate_id)
                # Stored at once: a later file with the same certificate is compared with it.
                index.keep_files(transaction.connection, (file,))
            index.keep_files(transaction.connection, refused)
            index.place_certificates(transaction.connection, affected)

    def _local_digests(self, certificate_ids: Iterable[str]) -> Mapping[str, str]:
        if self._local is None:
            return {}
        with self._local.reading() as connection:
            return index.digests_of_local(connection, certificate_ids)

    def _read(self, path: str, indexed: Callable[[str], str]) -> IndexedFile | _Envelope:
        """Return an envelope whose signature is valid or not decidable, or the refused file."""
        file = IndexedFile(path, self._files[path], FileStanding.REFUSED)
        try:
            sealed = _sealed(self._root / path)
        except OSError as error:
            return replace(file, why=(error.strerror or "cannot be read").lower())
        except IntegrityError as error:
            return replace(file, why=error.problem)
        signature = signature_check(sealed, self._keyring, None)
        is_trusted = signature.outcome is CheckOutcome.HOLDS
        file = replace(file, key_id=sealed.key_id)
        if signature.outcome is CheckOutcome.FAILS:
            return replace(file, why=signature.detail)
        known, certificate = indexed(sha256(sealed.payload).hexdigest()), None
        if not known:
            try:
                certificate = parse(sealed.payload)
            except IntegrityError as error:
                return replace(file, why=error.problem)
        return _Envelope(
            replace(
                file,
                standing=FileStanding.TRUSTED if is_trusted else FileStanding.UNTRUSTED,
                certificate_id=certificate.id if certificate else known,
            ),
            sealed,
            certificate,
        )

    def _of_this_repository(self, envelopes: Iterable[_Envelope]) -> list[_Envelope]:
        """Mark certificates that were issued for another repository; an indexed one was compared before."""
        found = list(envelopes)
        foreign = self._repository.foreign([each.certificate for each in found if each.certificate is not None])
        return [
            replace(each, file=replace(each.file, standing=FileStanding.FOREIGN, why=foreign[each.file.certificate_id]))
            if each.certificate is not None and each.file.certificate_id in foreign
            else each
            for each in found
        ]


class _Repository:
    """The git repository of the project."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def state(self) -> str:
        """Return a digest of its remote and its references."""
        references = git(self._root, "for-each-ref", "--format=%(objectname)") or ""
        head = git(self._root, "rev-parse", "HEAD") or ""
        return sha256(f"{configured(self._root).origin}\n{head}\n{references}".encode()).hexdigest()

    def foreign(self, certificates: Iterable[Certificate]) -> dict[str, str]:
        """Return those of the given certificates that were issued for another repository, each with the reason."""
        named = [each for each in certificates if each.revision.commit]
        if not named:
            return {}
        origin = configured(self._root).origin.strip()
        here = repository_address(origin) if origin else ""
        elsewhere = [
            each
            for each in named
            if not (here and each.revision.remote and repository_address(each.revision.remote) == here)
        ]
        if not elsewhere or git(self._root, "rev-parse", "--git-dir") is None or is_shallow(self._root):
            return {}
        known = known_commits(self._root, (each.revision.commit for each in elsewhere))
        return {
            each.id: f"issued for commit {each.revision.commit[:12]} of another repository"
            for each in elsewhere
            if each.revision.commit not in known
        }


def _sealed(path: Path) -> Envelope:
    """Return the envelope in a file.

    Raises:
        OSError: The file cannot be read, or is a symbolic link.
        IntegrityError: The file is not an envelope.
    """
    found = read_plain(path, MOST_BYTES, follow=False)
    problem = "not a regular file" if found is None else ""
    if found is not None and len(found.data) > MOST_BYTES:
        problem = f"larger than {MOST_BYTES // 2**20} MiB"
    if found is None or problem:
        raise IntegrityError(problem, remedy="")
    return read_envelope(found.data)


def _certificates(files: Iterable[IndexedFile]) -> set[str]:
    return {each.certificate_id for each in files if each.certificate_id}


def _compared_with_local(envelope: _Envelope, local: Mapping[str, str]) -> IndexedFile:
    file, digest = envelope.file, local.get(envelope.file.certificate_id)
    if digest is None or file.standing is FileStanding.FOREIGN:
        return file
    if digest == sha256(envelope.sealed.payload).hexdigest():
        return replace(file, standing=FileStanding.REFUSED, certificate_id="", key_id="", why="")
    return replace(file, standing=FileStanding.REFUSED, why="differs from the local certificate of the same ID")


def _compared_with_indexed(connection: Connection, envelope: _Envelope) -> IndexedFile:
    """Refuse a second certificate with an indexed ID, unless it is the one with a trusted signature."""
    file = envelope.file
    digest = index.digest_of_certificate(connection, file.certificate_id)
    if not digest or digest == sha256(envelope.sealed.payload).hexdigest():
        return file
    present = index.file_of(connection, file.certificate_id)
    if present is not None and present.path != file.path:
        why = "another published certificate has its ID"
        if present.standing is FileStanding.TRUSTED or file.standing is FileStanding.UNTRUSTED:
            return replace(file, standing=FileStanding.REFUSED, why=why)
        index.keep_files(connection, (replace(present, standing=FileStanding.REFUSED, why=why),))
    index.remove_certificate(connection, file.certificate_id)
    return file


def _fingerprint(keys: Keyring) -> str:
    spans = sorted((each.key_id, each.public_key.hex(), str(each.last)) for each in keys.history.spans.values())
    return sha256(repr(spans).encode()).hexdigest()
