"""Changes of keys, told in every log that a home can reach: a new key for the old one, and keys that are revoked."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.certificates.log import log, pins
from esper_agents.certificates.log.log import Record
from esper_agents.certificates.notices import log_notices, notice_statement
from esper_agents.certificates.sealing.keys import (
    SigningKey,
    existing_key,
    given_key_file,
    key_file,
    load,
    locked_folder,
    new_private_file,
    sync,
    write_whole,
)
from esper_agents.certificates.sealing.public_keys import as_ssh, key_id_of
from esper_agents.certificates.sealing.rotation import KeyHistory, key_history
from esper_agents.certificates.sealing.trust import keep_earlier, trusted
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.notice import EntryKind, Notice, NoticeKind
from esper_agents.errors import UsageError
from esper_agents.orchestration.logs import has_entries_of, newest_project, open_logs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from esper_agents.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Said:
    """Who changes keys, and why.

    Attributes:
        by: The person's name on this machine.
        reason: Why, in words.
    """

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rotated:
    """A new key in the place of the old one.

    Attributes:
        old: The key that retired.
        new: The key that signs from now on.
        logs: Where that was entered.
    """

    old: bytes
    new: bytes
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Revoked:
    """A key that counts no longer.

    Attributes:
        key: The key.
        logs: Where that was entered.
        brought: Keys that it brought into these logs, by fingerprint; they stay good unless they are revoked, too.
    """

    key: bytes
    logs: tuple[str, ...]
    brought: tuple[str, ...]


def rotate(home: Path, said: Said) -> Rotated:
    """Put a new key in the place of the home's own, and say so in every log that it can reach.

    The old key's private half is kept only until the logs have it that the new key came and the old one retired.
    Whatever stops this half way, doing it again goes on from there.

    Raises:
        UsageError: There is no key, or `ESPER_SIGNING_KEY_FILE` gives one.
        StorageError: A database or the home cannot be written.
        IntegrityError: A log is not what it was.
    """
    if given_key_file() is not None:
        raise UsageError(
            "the signing key is given by ESPER_SIGNING_KEY_FILE, and is not this home's to replace",
            remedy="unset it, or put another key into that file and have `esper keys trust` know it",
        )
    current = key_file(home)
    following, retiring = current.with_name("next-key.pem"), current.with_name("retiring-key.pem")
    # The logs are opened first: what cannot be told anywhere must not be begun.
    with open_logs(home) as stores, locked_folder(home):
        if not current.exists():
            raise UsageError("there is no key yet", remedy="the first certificate makes one; nothing is to be replaced")
        if not following.exists() and not retiring.exists():
            new_private_file(following)
        if following.exists():
            old, new = load(current), load(following)
            for store in stores:
                _tell_added(store, home, old, new, said)
            # A copy, then one step: at no moment is there no key, or somebody would make one.
            write_whole(retiring, current.read_bytes())
            following.replace(current)
            sync(current.parent)
        old, new = load(retiring), load(current)
        keep_earlier(home, old.public_key)
        for store in stores:
            _tell_added(store, home, old, new, said)
            _tell_retired(store, home, old, new, said)
        retiring.unlink()
        sync(current.parent)
        return Rotated(old.public_key, new.public_key, tuple(str(each.where) for each in stores))


def revoke(home: Path, key: bytes, said: Said, *, project_key: str) -> Revoked:
    """Say in every log that knows a key, and in a project's own, that nothing counts that it signs from now on.

    Raises:
        UsageError: It is the key that signs here, or no log is there, or none of them has it still good.
        StorageError: A database or the home cannot be used.
        IntegrityError: A log is not what it was.
    """
    own = existing_key(home)
    if own is None or own.public_key == key:
        raise UsageError(
            "the key that signs here cannot revoke itself" if own else "there is no key here to sign it with",
            remedy="run `esper keys rotate`, then revoke the old one" if own else "run `esper keys export`",
        )
    told: list[str] = []
    brought: set[str] = set()
    with open_logs(home) as stores:
        for store in stores:
            with _telling(store, home) as transaction:
                history = _history(transaction.connection, (*trusted(home, None).roots(), key))
                span = history.spans[key_id_of(key)]
                if span.ended_by is NoticeKind.KEY_REVOKED or not _concerns(transaction.connection, key, project_key):
                    continue
                _enter(transaction, own, _notice(transaction, NoticeKind.KEY_REVOKED, key, said))
                told.append(str(store.where))
                brought |= {each.key_id for each in history.added_by(span.key_id) if each.last is None}
    if not told:
        raise UsageError(
            f"no log here has {key_id_of(key)} as a key that is still good",
            remedy="remove its line from the files of trusted keys: `esper keys show` names them",
        )
    return Revoked(key, tuple(told), tuple(sorted(brought)))


def known_key(home: Path, key_id: str) -> bytes | None:
    """Return the key of a fingerprint, among those trusted here and those that the logs name."""
    roots = trusted(home, None).roots()
    found = {key_id_of(each): each for each in roots}
    with open_logs(home) as stores:
        for store in stores:
            with store.reading() as connection:
                found |= {each.key_id: each.public_key for each in _history(connection, roots).spans.values()}
    return found.get(key_id)


def _tell_added(store: Store, home: Path, old: SigningKey, new: SigningKey, said: Said) -> None:
    with _telling(store, home) as transaction:
        if not _is_told(transaction.connection, NoticeKind.KEY_ADDED, new.public_key):
            _enter(transaction, old, _notice(transaction, NoticeKind.KEY_ADDED, new.public_key, said))


def _tell_retired(store: Store, home: Path, old: SigningKey, new: SigningKey, said: Said) -> None:
    with _telling(store, home) as transaction:
        if not _is_told(transaction.connection, NoticeKind.KEY_RETIRED, old.public_key):
            _enter(transaction, new, _notice(transaction, NoticeKind.KEY_RETIRED, old.public_key, said))


@contextmanager
def _telling(store: Store, home: Path) -> Iterator[Transaction]:
    """Yield a transaction for notices in a log that is what it was; its newest checkpoint is pinned at the end."""
    with store.writing() as transaction:
        pins.check_before_append(transaction.connection, home, store.where)
        yield transaction
    with store.reading() as connection:
        pins.renew(connection, home, store.where)


def _is_told(connection: Connection, kind: NoticeKind, key: bytes) -> bool:
    notices = (each.notice for each in log_notices(log.notices(connection)))
    return any(each.kind is kind and each.key == as_ssh(key) for each in notices)


def _concerns(connection: Connection, key: bytes, project_key: str) -> bool:
    """Return whether a log has something signed by a key, a notice on it, or something of a project."""
    return has_entries_of(connection, key_id_of(key), project_key) or any(
        each.notice.key == as_ssh(key) for each in log_notices(log.notices(connection))
    )


def _history(connection: Connection, roots: tuple[bytes, ...]) -> KeyHistory:
    return key_history(log_notices(log.notices(connection)), roots)


def _notice(transaction: Transaction, kind: NoticeKind, key: bytes, said: Said) -> Notice:
    return Notice(new_id(Prefix.NOTICE), kind, transaction.at, said.by, said.reason, key=as_ssh(key))


def _enter(transaction: Transaction, key: SigningKey, notice: Notice) -> None:
    record = Record(notice.id, EntryKind.NOTICE, "", notice_statement(notice))
    log.append(transaction, key, newest_project(transaction.connection), record)
