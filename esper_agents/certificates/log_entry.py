"""Sign certificates with the own key and enter them in the transparency log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.notices import log_notices
from esper_agents.certificates.signing.key_history import key_history
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.signing.trusted_keys import trusted
from esper_agents.domain.notice import EntryKind
from esper_agents.paths import home
from esper_agents.storage.lazy_sql import sql, tables

if TYPE_CHECKING:
    from esper_agents.certificates.log.transparency_log import AppendResult
    from esper_agents.storage.store import Transaction


def sign_and_log(transaction: Transaction, project_key: str, certificate_id: str, statement: bytes) -> AppendResult:
    """Sign an archived certificate and append it to the log.

    Raises:
        IntegrityError: The log is inconsistent with its pin or checkpoint.
        UsageError: The signing key is not usable.
    """
    record = Record(certificate_id, EntryKind.CERTIFICATE, certificate_id, statement)
    return transparency_log.append(transaction, signing_key(home()), project_key, record)


def enter_unlogged(transaction: Transaction, where: str, project_key: str) -> int:
    """Ensure that a project's log can be extended or started; return the number of certificates that were entered.

    The first log of a database starts with the certificates archived before logs existed; every log starts with the
    key notices of the other logs. If a pinned log is gone, nothing is entered, because whoever removed the log may
    have changed the archive.

    Args:
        transaction: Transaction of the next entry. It must not hold the lock of a log.
        where: `Store.where`.
        project_key: Key of the project.

    Raises:
        IntegrityError: The log contradicts its pin.
    """
    connection = transaction.connection
    pins.check_before_append(connection, home(), where, project_key)
    if transparency_log.log_of(connection, project_key):
        return 0
    transparency_log.hold_beginnings(transaction)
    if transparency_log.logs(connection):
        carry_key_notices(transaction, project_key)
        return 0
    if any(pins.pinned(home(), where, each) is not None for each in (project_key, pins.SHARED)):
        return 0
    wanted = sql.select(
        tables.certificate.c.project_key, tables.certificate.c.id, tables.certificate.c.statement
    ).order_by(tables.certificate.c.position)
    unlogged = connection.execute(wanted).all()
    for key, certificate_id, statement in unlogged:
        sign_and_log(transaction, key, certificate_id, bytes(statement))
    return len(unlogged)


def carry_key_notices(transaction: Transaction, project_key: str) -> None:
    """Start a project's log with the key notices of the database's other logs that trusted keys signed.

    A key that is revoked in the database is thus revoked for later projects. Does nothing if the log exists.

    Args:
        transaction: Transaction of the new entries. It must not hold the lock of a log.
        project_key: Key of the project.

    Raises:
        UsageError: The signing key is not usable.
    """
    connection = transaction.connection
    transparency_log.hold_beginnings(transaction)
    if transparency_log.log_of(connection, project_key):
        return
    root = connection.scalar(sql.select(tables.project.c.root).where(tables.project.c.key == project_key))
    roots = trusted(home(), Path(root) if root else None, project_key).roots()
    found = (
        log_notice
        for log_notice in log_notices(transparency_log.notices_about_none(connection))
        if log_notice.notice.key
    )
    said = [replace(each, index=index) for index, each in enumerate(found)]
    ignored = {each.index for each in key_history(said, roots).ignored}
    for each in said:
        if each.index not in ignored:
            record = Record(each.notice.id, EntryKind.NOTICE, "", each.envelope.payload)
            transparency_log.append_envelope(transaction, signing_key(home()), project_key, record, each.envelope)
