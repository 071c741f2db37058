"""Record key rotations and revocations in every reachable log."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.archive.log_discovery import has_entries_of, open_logs
from esper_agents.atomic_file import sync_folder
from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.notices import log_notices, notice_statement
from esper_agents.certificates.signing.key_history import KeyHistory, key_history
from esper_agents.certificates.signing.public_keys import as_ssh, key_id_of
from esper_agents.certificates.signing.signing_key import (
    SigningKey,
    existing_key,
    given_key_file,
    key_file,
    load,
    locked_folder,
    new_private_file,
    write_whole,
)
from esper_agents.certificates.signing.trusted_keys import keep_earlier, trusted
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.notice import EntryKind, LogNoticeStatement, NoticeKind
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from sqlalchemy import Connection

    from esper_agents.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class ChangeReason:
    """User who changes keys, and the reason.

    Attributes:
        by: The user's name on this machine.
        reason: Reason as text.
    """

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class KeyRotation:
    """Replacement of the signing key.

    Attributes:
        old: Retired key.
        new: New signing key.
        logs: Logs in which the change was recorded.
    """

    old: bytes
    new: bytes
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyEnrollment:
    """Enrollment of a key.

    Attributes:
        name: Owner, as the user names it.
        key: Enrolled key.
        logs: Databases in which the notice was recorded; empty if every log contains it already.
    """

    name: str
    key: bytes
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyRevocation:
    """Revocation of a key.

    Attributes:
        key: Revoked key.
        logs: Logs in which it was recorded.
        brought: Keys that it introduced into these logs, by fingerprint; they stay valid unless they are revoked, too.
    """

    key: bytes
    logs: tuple[str, ...]
    brought: tuple[str, ...]


def rotate(home: Path, said: ChangeReason) -> KeyRotation:
    """Replace the signing key of the data directory, and record the change in every reachable log.

    The old private key is kept only until the logs contain both the addition of the new and the retirement of the old
    key. If the rotation is interrupted, a second call continues it.

    Raises:
        UsageError: There is no key, or `ESPER_SIGNING_KEY_FILE` provides it.
        StorageError: A database or the data directory cannot be written.
        IntegrityError: A log is inconsistent with its pin or checkpoint.
    """
    if given_key_file() is not None:
        raise UsageError(
            "the signing key is set by ESPER_SIGNING_KEY_FILE and cannot be rotated here",
            remedy="unset it, or put another key into that file and run `esper keys trust` for it",
        )
    current = key_file(home)
    following, retiring = current.with_name("next-key.pem"), current.with_name("retiring-key.pem")
    # All logs are opened first, so that an unreachable log stops the rotation before it starts.
    with open_logs(home) as stores, locked_folder(home):
        if not current.exists():
            raise UsageError(
                "there is no signing key yet", remedy="the first certificate creates one; no rotation is needed"
            )
        if not following.exists() and not retiring.exists():
            new_private_file(following)
        if following.exists():
            old, new = load(current), load(following)
            for store in stores:
                _tell_added(store, home, old, new, said)
            # A copy, then one rename: without a key at any moment, another process would create one.
            write_whole(retiring, current.read_bytes())
            following.replace(current)
            sync_folder(current.parent)
        old, new = load(retiring), load(current)
        keep_earlier(home, old.public_key)
        for store in stores:
            _tell_added(store, home, old, new, said)
            _tell_retired(store, home, old, new, said)
        retiring.unlink()
        sync_folder(current.parent)
        return KeyRotation(old.public_key, new.public_key, tuple(str(each.where) for each in stores))


def revoke(home: Path, key: bytes, said: ChangeReason, *, project_key: str) -> KeyRevocation:
    """Record the revocation of a key in every log that knows it, and in the log of the given project.

    Raises:
        UsageError: The key is the signing key, or there is no log, or the key is valid in none.
        StorageError: A database or the data directory cannot be used.
        IntegrityError: A log is inconsistent with its pin or checkpoint.
    """
    own = existing_key(home)
    if own is None or own.public_key == key:
        raise UsageError(
            "the signing key cannot revoke itself" if own else "there is no signing key for the revocation",
            remedy="run `esper keys rotate`, then revoke the old one" if own else "run `esper keys export`",
        )
    told: list[str] = []
    brought: set[str] = set()
    with open_logs(home) as stores:
        for store in stores:
            with store.reading() as connection:
                if not _concerns(connection, key, project_key):
                    continue
            change = _KeyChange(NoticeKind.KEY_REVOKED, key, own, said)
            for log_project in _each_log(store):
                with _telling(store, home, log_project) as transaction:
                    history = _history(transaction.connection, log_project, (*trusted(home, None).roots(), key))
                    span = history.spans[key_id_of(key)]
                    if span.ended_by is not NoticeKind.KEY_REVOKED:
                        change.enter(transaction, log_project)
                        brought |= {each.key_id for each in history.added_by(span.key_id) if each.last is None}
            if change.notice is not None:
                told.append(str(store.where))
    if not told:
        raise UsageError(
            f"key {key_id_of(key)} is not valid in any local log",
            remedy="remove its line from the files of trusted keys: `esper keys show` lists them",
        )
    return KeyRevocation(key, tuple(told), tuple(sorted(brought)))


def enroll(home: Path, keys: Mapping[bytes, str], said: ChangeReason) -> tuple[KeyEnrollment, ...]:
    """Record in every reachable log that keys sign for the user, such as those of workers on other machines.

    An enrolled key is valid for all entries of a log, also for those it signed before; a notice states who enrolled it.

    Args:
        home: `paths.home()`.
        keys: Public keys, each with the name of its owner.
        said: User and reason.

    Raises:
        UsageError: There is no signing key, it is not valid in a log, there is no log, or a key ended in a log.
        StorageError: A database or the data directory cannot be used.
        IntegrityError: A log is inconsistent with its pin or checkpoint.
    """
    own = existing_key(home)
    if own is None:
        raise UsageError("there is no signing key for the notice", remedy="run `esper keys export`, which creates it")
    with open_logs(home) as stores:
        if not stores:
            raise UsageError(
                "no log exists yet", remedy="issue a certificate first; keys can be enrolled after they have signed"
            )
        roots = trusted(home, None).roots()
        for store in stores:
            with store.reading() as connection:
                for project_key in transparency_log.logs(connection).values():
                    _refuse_ended(_history(connection, project_key, roots), (own.public_key, *keys))
        return tuple(_enroll(stores, home, own, KeyEnrollment(name, key, ()), said) for key, name in keys.items())


def _refuse_ended(history: KeyHistory, keys: Iterable[bytes]) -> None:
    for key_id in map(key_id_of, keys):
        span = history.spans.get(key_id)
        if span is not None and span.last is not None:
            problem = history.said(key_id, span.last + 1)
            raise UsageError(problem, remedy="use another key: a key that ended never becomes valid again")


def _enroll(
    stores: tuple[Store, ...], home: Path, own: SigningKey, wanted: KeyEnrollment, said: ChangeReason
) -> KeyEnrollment:
    told: list[str] = []
    key, reason = wanted.key, f"{wanted.name}: {said.reason}" if said.reason else wanted.name
    for store in stores:
        change = _KeyChange(NoticeKind.KEY_ENROLLED, key, own, ChangeReason(said.by, reason))
        for project_key in _each_log(store):
            with _telling(store, home, project_key) as transaction:
                # By the own key alone: others who trust it find the enrolled key through the log only.
                spans = _history(transaction.connection, project_key, (own.public_key,)).spans
                known = spans.get(key_id_of(key))
                if known is None or known.first:
                    change.enter(transaction, project_key)
        if change.notice is not None:
            told.append(str(store.where))
    return replace(wanted, logs=tuple(told))


def known_key(home: Path, key_id: str) -> bytes | None:
    """Return the key with a fingerprint from the trusted keys and the keys in the logs."""
    roots = trusted(home, None).roots()
    found = {key_id_of(root): root for root in roots}
    with open_logs(home) as stores:
        for store in stores:
            with store.reading() as connection:
                for project_key in transparency_log.logs(connection).values():
                    spans = _history(connection, project_key, roots).spans
                    found |= {span.key_id: span.public_key for span in spans.values()}
    return found.get(key_id)


@dataclass(slots=True)
class _KeyChange:
    """Key change. All logs of one database get the same notice, so that a new log can copy it once.

    Attributes:
        kind: Kind of the change.
        key: Affected key.
        by: Key that signs the notice.
        said: User and reason of the change.
        notice: Notice; None before the first log entry.
    """

    kind: NoticeKind
    key: bytes
    by: SigningKey
    said: ChangeReason
    notice: LogNoticeStatement | None = None

    def enter(self, transaction: Transaction, project_key: str) -> None:
        """Append the notice to the log of a project."""
        if self.notice is None:
            name, said = new_id(Prefix.NOTICE), self.said
            self.notice = LogNoticeStatement(
                name, self.kind, transaction.at, said.by, said.reason, key=as_ssh(self.key)
            )
        record = Record(self.notice.id, EntryKind.NOTICE, "", notice_statement(self.notice))
        transparency_log.append(transaction, self.by, project_key, record)


def _tell_added(store: Store, home: Path, old: SigningKey, new: SigningKey, said: ChangeReason) -> None:
    _tell(store, home, _KeyChange(NoticeKind.KEY_ADDED, new.public_key, old, said))


def _tell_retired(store: Store, home: Path, old: SigningKey, new: SigningKey, said: ChangeReason) -> None:
    _tell(store, home, _KeyChange(NoticeKind.KEY_RETIRED, old.public_key, new, said))


def _tell(store: Store, home: Path, change: _KeyChange) -> None:
    for project_key in _each_log(store):
        with _telling(store, home, project_key) as transaction:
            if not _is_told(transaction.connection, project_key, change.kind, change.key):
                change.enter(transaction, project_key)


def _each_log(store: Store) -> Iterator[str]:
    """Yield a project for each log of a database, including logs created during the iteration."""
    done: set[int] = set()
    while True:
        with store.reading() as connection:
            left = {log_id: key for log_id, key in transparency_log.logs(connection).items() if log_id not in done}
        if not left:
            return
        yield from left.values()
        done |= left.keys()


@contextmanager
def _telling(store: Store, home: Path, project_key: str) -> Iterator[Transaction]:
    """Yield a transaction for notices in a project's log after checking its pin; pin the new checkpoint afterwards.

    No log can be created in the meantime: a new one either copies this notice or is included in `_each_log`.
    """
    with store.writing() as transaction:
        transparency_log.hold_beginnings(transaction)
        pins.check_before_append(transaction.connection, home, store.where, project_key)
        yield transaction
    with store.reading() as connection:
        pins.renew(connection, home, store.where, project_key)


def _is_told(connection: Connection, project_key: str, kind: NoticeKind, key: bytes) -> bool:
    said = transparency_log.notices(connection, transparency_log.log_of(connection, project_key))
    return any(
        log_notice.notice.kind is kind and log_notice.notice.key == as_ssh(key) for log_notice in log_notices(said)
    )


def _concerns(connection: Connection, key: bytes, project_key: str) -> bool:
    """Return whether a database contains an entry signed by a key, a notice about it, or an entry of a project."""
    return has_entries_of(connection, key_id_of(key), project_key) or any(
        log_notice.notice.key == as_ssh(key)
        for log_notice in log_notices(transparency_log.notices_about_none(connection))
    )


def _history(connection: Connection, project_key: str, roots: tuple[bytes, ...]) -> KeyHistory:
    return key_history(
        log_notices(transparency_log.notices(connection, transparency_log.log_of(connection, project_key))), roots
    )
