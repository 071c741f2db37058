"""Countersign a certificate with an SSH key and record it in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.archive.publishing import publish, publish_notice
from esper_agents.archive.verification.signature import NO_INDEX
from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.notices import enter_notice, log_notices
from esper_agents.certificates.signing.public_keys import SSH_TYPE, from_ssh, key_id_of
from esper_agents.certificates.signing.sshsig import check_countersignature, countersign, signer_in
from esper_agents.certificates.statement import digest_of, parse
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
from esper_agents.errors import EvidenceError, IntegrityError, UsageError
from esper_agents.storage.projects import note_project

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.certificates.signing.key_history import KeyHistory, LogNotice
    from esper_agents.storage.store import Store, Transaction

COUNTERSIGNATURE = "countersignature"


@dataclass(frozen=True, slots=True)
class Countersigner:
    """Countersigner and the reason for the countersignature.

    Attributes:
        key_file: The user's SSH key, or its public half if an agent holds the private one.
        name: The user's name on this machine, which is not verified.
        reason: Reason as text; may be empty.
        home: `paths.home()`.
    """

    key_file: Path
    name: str
    reason: str
    home: Path


def countersign_certificate(
    store: Store, place: ProjectPlace, certificate_id: str, by: Countersigner
) -> LogNoticeStatement:
    """Countersign a certificate, append the countersignature to the log and publish it next to the view.

    Raises:
        NotFoundError: The log has no such certificate.
        IntegrityError: The certificate was changed, or the log is inconsistent.
        UsageError: The key cannot sign, or has countersigned this certificate before.
        EvidenceError: ssh-keygen is not installed.
    """
    with store.reading() as connection:
        log_id = transparency_log.log_of(connection, place.project.key)
        statement = transparency_log.envelope(connection, log_id, certificate_id).payload
    notice = _enter(store, place, certificate_id, statement, by)
    publish(store, place, certificate_id)
    return notice


def countersign_published(
    store: Store, place: ProjectPlace, statement: bytes, record: Path, by: Countersigner
) -> LogNoticeStatement:
    """Countersign the published certificate of a colleague, in the user's own log and next to the colleague's view.

    Args:
        store: The user's archive.
        place: Project with the places of its certificates.
        statement: Bytes of the certificate, which a trusted key signed.
        record: Its published envelope.
        by: The user.

    Raises:
        IntegrityError: The log is inconsistent.
        UsageError: The key cannot sign, or has countersigned this certificate before.
        EvidenceError: ssh-keygen is not installed.
    """
    notice = _enter(store, place, parse(statement).id, statement, by)
    with store.reading() as connection:
        log_id = transparency_log.log_of(connection, place.project.key)
        publish_notice(record, notice, transparency_log.envelope(connection, log_id, notice.id))
        pins.renew(connection, by.home, store.where, place.project.key)
    return notice


def _enter(
    store: Store, place: ProjectPlace, certificate_id: str, statement: bytes, by: Countersigner
) -> LogNoticeStatement:
    # The user may take minutes to type a passphrase: no lock is held in the meantime.
    armoured = countersign(statement, by.key_file, by.home)
    key = " ".join(signer_in(armoured))
    with store.writing() as transaction:
        note_project(transaction, place.project)
        log_id = transparency_log.log_of(transaction.connection, place.project.key)
        pins.check_before_append(transaction.connection, by.home, store.where, place.project.key)
        if any(
            countersignature.notice.key == key
            for countersignature in countersignatures(transaction.connection, log_id, certificate_id)
        ):
            raise UsageError(
                f"{certificate_id} is already countersigned with that key",
                remedy="run `esper certificates verify` to see it",
            )
        notice = _notice(transaction, certificate_id, statement, armoured, by)
        enter_notice(transaction, place.project.key, notice)
    return notice


def countersignatures(connection: Connection, log_id: int, certificate_id: str) -> Iterator[LogNotice]:
    """Yield the countersignatures of a certificate, oldest first, without verifying them."""
    for log_notice in log_notices(transparency_log.notices_about(connection, log_id, certificate_id)):
        if log_notice.notice.kind is NoticeKind.COUNTERSIGNED:
            yield log_notice


def check_countersignatures(
    connection: Connection, log_id: int, certificate_id: str, statement: bytes, keyring: Keyring
) -> tuple[Check, ...]:
    """Verify the countersignatures of a certificate; one of an untrusted key gives `cannot decide`.

    Args:
        connection: The archive.
        log_id: Log that contains the certificate.
        certificate_id: ID of the certificate.
        statement: Bytes of the certificate.
        keyring: Keys that may countersign, with their validity.
    """
    return check_each(countersignatures(connection, log_id, certificate_id), statement, keyring)


def check_each(notices: Iterable[LogNotice], statement: bytes, keyring: Keyring) -> tuple[Check, ...]:
    """Verify the countersignatures among the notices about one certificate; see `check_countersignatures`."""
    return tuple(
        _check(notice, statement, keyring) for notice in notices if notice.notice.kind is NoticeKind.COUNTERSIGNED
    )


def _check(entry: LogNotice, statement: bytes, keyring: Keyring) -> Check:
    try:
        who = check_countersignature(statement, entry.notice.signature, keyring.trusted.allowed_signers())
        ended = _ended(entry, keyring.history)
    except EvidenceError as error:
        return Check(COUNTERSIGNATURE, CheckOutcome.CANNOT_DECIDE, error.problem)
    except IntegrityError as error:
        return Check(COUNTERSIGNATURE, CheckOutcome.FAILS, error.problem)
    if ended:
        return Check(COUNTERSIGNATURE, CheckOutcome.FAILS, ended)
    place = "in another log" if entry.index == NO_INDEX else f"at entry {entry.index}"
    return Check(COUNTERSIGNATURE, CheckOutcome.HOLDS, f"by {who}, {place}")


def _ended(entry: LogNotice, history: KeyHistory) -> str:
    """Return how the key ended before it countersigned; empty if it was valid."""
    kind, blob = signer_in(entry.notice.signature)
    if kind != SSH_TYPE:
        return ""
    key_id = key_id_of(from_ssh(kind, blob))
    is_known = key_id in history.spans
    return history.said(key_id, entry.index) if is_known and not history.is_good(key_id, entry.index) else ""


def _notice(
    transaction: Transaction, certificate_id: str, statement: bytes, armoured: str, by: Countersigner
) -> LogNoticeStatement:
    return LogNoticeStatement(
        id=new_id(Prefix.NOTICE),
        kind=NoticeKind.COUNTERSIGNED,
        at=transaction.at,
        by=by.name,
        reason=by.reason,
        key=" ".join(signer_in(armoured)),
        certificate=certificate_id,
        certificate_sha256=digest_of(statement).removeprefix("sha256:"),
        signature=armoured,
    )
