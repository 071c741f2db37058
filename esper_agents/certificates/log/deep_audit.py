"""Deep audit: recompute every leaf from its statement and signature; check index rows."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sqlalchemy import String, select, type_coerce

from esper_agents.certificates.log.faults import FaultKind, Faults, shown
from esper_agents.certificates.log.merkle import leaf_hash
from esper_agents.certificates.log.transparency_log import log_of
from esper_agents.certificates.signing.dsse import PAYLOAD_TYPE, Envelope, envelope_bytes, is_signed_by
from esper_agents.certificates.statement import parse
from esper_agents.certificates.strict_json import loads
from esper_agents.domain.notice import EntryKind
from esper_agents.domain.plain_text import plain
from esper_agents.errors import IntegrityError
from esper_agents.storage.tables import certificate, log_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.domain.certificate import Certificate
    from esper_agents.storage.store import Store

# Statements may be large, so only a few are read at a time.
_ROWS_AT_ONCE = 64


def deep_audit(store: Store, project_key: str, public_keys: Mapping[str, bytes]) -> Faults:
    """Return the faults of the records behind the leaves of a project's log. Memory does not grow with its length.

    Each envelope is rebuilt from statement and signature, its hash is compared with the leaf, and its signature is
    verified. Then the index columns of the record are compared with its content. `audit_log` checks that the leaves
    belong to the log.

    Args:
        store: The database.
        project_key: Key of the project.
        public_keys: Public keys accepted for the log, by fingerprint.
    """
    faults = Faults()
    with store.reading() as connection:
        of_log = _EVERYTHING.where(log_entry.c.log_id == log_of(connection, project_key))
        rows = connection.execute(of_log, execution_options={"yield_per": _ROWS_AT_ONCE})
        for row in rows:
            is_certificate = row.kind == EntryKind.CERTIFICATE
            if is_certificate and row.archived is None:
                faults.add(
                    FaultKind.CERTIFICATE_REMOVED, shown(row.record_id), "certificate is missing from the archive"
                )
                continue
            data = bytes(row.archived if is_certificate else row.statement)
            if _check_leaf(faults, row, data, public_keys):
                for column in _wrong_columns(row, data):
                    detail = f"index column {column!r} differs from the statement"
                    faults.add(FaultKind.INDEX_CHANGED, shown(row.record_id), detail)
    return faults


def _check_leaf(faults: Faults, row: Any, data: bytes, public_keys: Mapping[str, bytes]) -> bool:
    where = shown(row.record_id)
    sealed = Envelope(PAYLOAD_TYPE, data, row.key_id, bytes(row.signature))
    if leaf_hash(envelope_bytes(sealed)) != bytes(row.leaf_hash):
        detail = f"statement and signature do not match the leaf of entry {row.idx}"
        faults.add(FaultKind.STATEMENT_CHANGED, where, detail)
        return False
    if row.key_id not in public_keys:
        faults.add(FaultKind.UNKNOWN_KEY, where, f"signed with {row.key_id[:60]!a}, which is not a key of this log")
        return False
    if not is_signed_by(sealed, public_keys[row.key_id]):
        faults.add(FaultKind.STATEMENT_CHANGED, where, "signature does not match the statement")
        return False
    return True


def _wrong_columns(row: Any, data: bytes) -> Iterator[str]:
    if row.kind != EntryKind.CERTIFICATE:
        if (said := _said(data)) is None or row.record_id != said.get("id"):
            yield "record_id"
        elif row.about != said.get("certificate"):
            yield "about"
        return
    try:
        issued = parse(data)
    except IntegrityError:
        yield "kind"
        return
    expected = _columns(issued, data) | {"about": issued.id, "record_id": issued.id, "project_key": row.archived_for}
    # A record contains plain text only; an index column may contain the raw request.
    yield from (name for name, said in expected.items() if plain(str(getattr(row, name))) != said)


def _said(data: bytes) -> dict[str, Any] | None:
    try:
        said = loads(data)["predicate"]
    except (IntegrityError, LookupError, TypeError):
        return None
    return said if isinstance(said, dict) else None


def _columns(issued: Certificate, data: bytes) -> dict[str, Any]:
    """Return the expected archive columns; `view_name`, the published name, is not part of the record."""
    return {
        "session_id": issued.session,
        "issued_at": issued.issued_at,
        "agent": issued.agent,
        "verdict_kind": issued.verdict.kind,
        "status": issued.verdict.status,
        "ceiling": issued.verdict.ceiling.status,
        "descriptor": issued.descriptor,
        "component": issued.component,
        "request": issued.task.request,
        "revision": issued.revision.commit,
        "sha256": sha256(data).hexdigest(),
    }


_LISTED = ("session_id", "issued_at", "agent", "status", "ceiling", "descriptor", "component", "request", "revision")
# Read as text: a value outside the closed set is a fault, not an exception.
_EVERYTHING = (
    select(
        *(type_coerce(each, String) if each is log_entry.c.kind else each for each in log_entry.c),
        certificate.c.statement.label("archived"),
        certificate.c.project_key.label("archived_for"),
        type_coerce(certificate.c.kind, String).label("verdict_kind"),
        *(type_coerce(certificate.c[name], String).label(name) for name in _LISTED),
        certificate.c.sha256,
    )
    .select_from(log_entry.outerjoin(certificate, certificate.c.id == log_entry.c.record_id))
    .order_by(log_entry.c.idx)
)
