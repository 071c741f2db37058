"""Enters certificates in the log, signed with the key of whoever runs this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from esper_agents.certificates.log import log, pins
from esper_agents.certificates.log.log import Record
from esper_agents.certificates.sealing.keys import signing_key
from esper_agents.domain.notice import EntryKind
from esper_agents.paths import home
from esper_agents.storage.tables import certificate

if TYPE_CHECKING:
    from esper_agents.certificates.log.log import Logged
    from esper_agents.storage.store import Transaction


def enter(transaction: Transaction, project_key: str, certificate_id: str, statement: bytes) -> Logged:
    """Sign a certificate that stands in the archive and enter it in the log.

    Raises:
        IntegrityError: The log is not what it was.
        UsageError: The signing key cannot be used.
    """
    record = Record(certificate_id, EntryKind.CERTIFICATE, certificate_id, statement)
    return log.append(transaction, signing_key(home()), project_key, record)


def enter_unlogged(transaction: Transaction, where: str) -> None:
    """Make sure that the log can be gone on with; when it begins, enter what was archived before there was one.

    Where a log was seen before and is gone, nothing is entered: whoever took the log away may have changed the archive.

    Args:
        transaction: What the next entry goes into.
        where: `Store.where`.

    Raises:
        IntegrityError: The log contradicts what was last seen of it.
    """
    pins.check_before_append(transaction.connection, home(), where)
    if log.origin(transaction.connection) or pins.pinned(home(), where) is not None:
        return
    wanted = select(certificate.c.project_key, certificate.c.id, certificate.c.statement).order_by(
        certificate.c.position
    )
    for project_key, certificate_id, statement in transaction.connection.execute(wanted).all():
        enter(transaction, project_key, certificate_id, bytes(statement))
