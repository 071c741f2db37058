"""Endings of the certificates of a listing, with few statements and few imports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from esper_agents.certificates.log import transparency_log
from esper_agents.storage.compiled_statements import Prepared, among

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from esper_agents.archive.store import CertificateSummary
    from esper_agents.archive.verification.supersession import SupersedingEntry
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store

_AT_ONCE = 500
_NAMED = {
    dialect: Prepared(
        f"SELECT DISTINCT certificate_relation.other AS other FROM certificate_relation"  # noqa: S608 - no value of others
        f" WHERE certificate_relation.other {ids}"
    )
    for dialect, ids in among("certificates").items()
}


def endings(store: Store, project: Project, entries: Sequence[CertificateSummary]) -> dict[str, SupersedingEntry]:
    """Return the last entry that ends each certificate of a listing by ID; certificates without one are omitted."""
    ids = [entry.id for entry in entries]
    with store.reading() as connection:
        log_id = transparency_log.log_of(connection, project.key)
        candidates: set[str] = set()
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            candidates |= named_by_others(connection, some)
            candidates |= _noticed(connection, log_id, some)
        return _in_force(connection, log_id, project, candidates) if candidates else {}


def named_by_others(connection: Connection, certificate_ids: Sequence[str]) -> set[str]:
    """Return those of some certificates that a certificate of this database supersedes, revokes or else names."""
    given = {"certificates": json.dumps(certificate_ids)}
    return {str(other) for (other,) in _NAMED[connection.dialect.name].rows(connection, given)}


def _noticed(connection: Connection, log_id: int, certificate_ids: Sequence[str]) -> set[str]:
    entries = list(transparency_log.notices_about(connection, log_id, *certificate_ids))
    if not entries:
        return set()
    from esper_agents.certificates.notices import log_notices

    return {each.notice.certificate for each in log_notices(entries)}


def _in_force(
    connection: Connection, log_id: int, project: Project, candidates: set[str]
) -> dict[str, SupersedingEntry]:
    from esper_agents.archive.inspection import keyring
    from esper_agents.archive.verification.supersession import later_entries

    keys = keyring(project, connection)
    found = {each: later_entries(connection, log_id, each, keys) for each in candidates}
    return {certificate_id: later[-1] for certificate_id, later in found.items() if later}
