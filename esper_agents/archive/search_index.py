"""Search index of certificates: derived rows that can be rebuilt from the statements."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from esper_agents.archive.search.tokens import searched_text
from esper_agents.certificates.views.file_names import accepted_view_names, view_names
from esper_agents.domain.plain_text import plain
from esper_agents.errors import IntegrityError
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.lazy_sql import sql, tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Row, Table

    from esper_agents.domain.certificate import Certificate

# Keys of PostgreSQL B-trees are limited to a third of a page; longer names are truncated.
LONGEST_PATH = 512
LONGEST_RULE = 64
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """Result of rebuilding all index rows.

    Attributes:
        certificates: Number of certificates with index rows.
        corrected: Certificates whose archive columns differed from their statements and were corrected.
        unreadable: Certificates that differ from what was issued; they are found by ID only.
    """

    certificates: int
    corrected: tuple[str, ...]
    unreadable: tuple[str, ...]


def tables_by_position() -> tuple[Table, ...]:
    """Return the index tables with a certificate's position in each row."""
    return tables.certificate_file, tables.certificate_rule, tables.certificate_relation, tables.certificate_metric


def add(connection: Connection, position: int, certificate: Certificate) -> None:
    """Write the index rows of a certificate.

    Args:
        connection: Connection of the transaction that archived the certificate.
        position: Its position in the archive.
        certificate: The certificate.
    """
    for rows_of, rows in rows_by_table(position, certificate).items():
        if rows:
            _ADD[rows_of].many(connection, rows)
    _ADD_WORDS[connection.dialect.name].rows(connection, {"position": position, "words": indexed_words(certificate)})


def remove(connection: Connection, position: int, certificate: Certificate | None) -> None:
    """Remove the index rows of a certificate of an SQLite archive.

    Args:
        connection: Connection of a write transaction.
        position: Its position in the archive.
        certificate: The certificate; without it, its words stay in the full-text index.
    """
    for rows_of in tables_by_position():
        connection.execute(sql.delete(rows_of).where(rows_of.c.position == position))
    if certificate is not None:
        _REMOVE_WORDS.rows(connection, {"position": position, "words": indexed_words(certificate)})


def rows_by_table(position: int, certificate: Certificate) -> dict[str, list[dict[str, Any]]]:
    """Return the index rows of a certificate by the name of their table, sorted."""
    from esper_agents.archive.metrics import metrics_of

    paths = {path_key(file.path) for file in certificate.examined}
    rules = {rule_key(finding.claim.rule) for finding in certificate.findings}
    relations = {(plain(relation.certificate), relation.kind) for relation in certificate.relations}
    metrics = {(each.name, each.evidence): each.amount for each in metrics_of(certificate)}
    return {
        "certificate_file": [{"path": path, "position": position} for path in sorted(paths)],
        "certificate_rule": [{"rule": rule, "position": position} for rule in sorted(rules)],
        "certificate_relation": [
            {"other": other, "position": position, "kind": str(kind)} for other, kind in sorted(relations)
        ],
        "certificate_metric": [
            {"name": name, "position": position, "evidence_id": evidence, "amount": amount}
            for (name, evidence), amount in sorted(metrics.items())
        ],
    }


def indexed_words(certificate: Certificate) -> str:
    """Return the text of a certificate for the full-text index."""
    return f"{searched_text(certificate)} {ending_word(certificate.id)}"


def columns(certificate: Certificate) -> dict[str, Any]:
    """Return the archive columns of a certificate that can be filtered."""
    return {
        "session_id": certificate.session,
        "issued_at": certificate.issued_at,
        "agent": certificate.agent,
        "kind": certificate.verdict.kind,
        "status": certificate.verdict.status,
        "ceiling": certificate.verdict.ceiling.status,
        "descriptor": certificate.descriptor,
        "component": certificate.component,
        "request": certificate.task.request,
        "revision": certificate.revision.commit,
    }


def rebuild(connection: Connection) -> RebuildResult:
    """Rebuild all index rows from the statements, and correct archive columns that differ from them.

    Idempotent.

    Args:
        connection: Connection of a write transaction.
    """
    for each in tables_by_position():
        connection.execute(sql.delete(each))
    _NO_WORDS[connection.dialect.name].rows(connection, {})
    count, corrected, unreadable = 0, [], []
    for row in archived_rows(connection):
        certificate = issued_in(row)
        if certificate is None:
            unreadable.append(str(row.id))
            continue
        said = columns(certificate) | _project_of(connection, row, certificate)
        if not _has_session(connection, certificate.session):
            del said["session_id"]
        if row.view_name not in accepted_view_names(certificate):
            said["view_name"] = _free_name(connection, str(row.project_key), certificate)
        if any(getattr(row, name) != value for name, value in said.items()):
            connection.execute(
                sql.update(tables.certificate).where(tables.certificate.c.position == row.position).values(said)
            )
            corrected.append(certificate.id)
        add(connection, row.position, certificate)
        count += 1
    return RebuildResult(count, tuple(corrected), tuple(unreadable))


def _has_session(connection: Connection, session_id: str) -> bool:
    return connection.scalar(sql.select(tables.session.c.id).where(tables.session.c.id == session_id)) is not None


def _free_name(connection: Connection, project_key: str, certificate: Certificate) -> str:
    """Return the first of a certificate's names that is free in the project."""
    names = view_names(certificate)
    wanted = sql.select(tables.certificate.c.view_name).where(
        tables.certificate.c.project_key == project_key, tables.certificate.c.view_name.in_(names)
    )
    taken = set(connection.scalars(wanted))
    return next((name for name in names if name not in taken), names[-1])


def _project_of(connection: Connection, row: Row[Any], certificate: Certificate) -> dict[str, str]:
    """Return the project of a certificate if its session, its log entry and the project's name agree.

    The statement contains only the project's name; the session and the log entry identify the project of that name.
    """
    by_session = connection.scalar(
        sql.select(tables.session.c.project_key).where(tables.session.c.id == certificate.session)
    )
    by_log = connection.scalar(
        sql.select(tables.log_entry.c.project_key).where(tables.log_entry.c.record_id == certificate.id)
    )
    if by_session is None or by_session != by_log or by_session == row.project_key:
        return {}
    name = connection.scalar(sql.select(tables.project.c.name).where(tables.project.c.key == by_session))
    return {"project_key": by_session} if name is not None and plain(name) == certificate.project else {}


def path_key(path: str) -> str:
    """Return the index key of a file path."""
    return plain(path)[:LONGEST_PATH]


def rule_key(rule: str) -> str:
    """Return the index key of a rule."""
    return plain(rule)[:LONGEST_RULE]


def ending_word(identifier: str) -> str:
    """Return the index word of an ID, reversed so that the end of the ID can be searched as a prefix."""
    return f"z{identifier.removeprefix('crt_')[::-1]}"


def archived_rows(connection: Connection) -> Iterator[Row[Any]]:
    """Yield every certificate of the archive in order, in small batches because there may be millions."""
    last = 0
    while rows := connection.execute(
        sql.select(tables.certificate)
        .where(tables.certificate.c.position > last)
        .order_by(tables.certificate.c.position)
        .limit(_AT_ONCE)
    ).all():
        yield from rows
        last = rows[-1].position


def issued_in(row: Row[Any]) -> Certificate | None:
    """Return the certificate of a row; None if its bytes differ from those issued under its ID."""
    # A listing reads no statement, and the classes of certificates are slow to define.
    from esper_agents.certificates.statement import parse

    data = bytes(row.statement)
    if sha256(data).hexdigest() != row.sha256:
        return None
    try:
        certificate = parse(data)
    except IntegrityError:
        return None
    return certificate if certificate.id == row.id else None


_COLUMNS = {
    "certificate_file": ("path", "position"),
    "certificate_rule": ("rule", "position"),
    "certificate_relation": ("other", "position", "kind"),
    "certificate_metric": ("name", "position", "evidence_id", "amount"),
}
_ADD = {
    table: Prepared(f"INSERT INTO {table} ({', '.join(names)}) VALUES (:{', :'.join(names)})")  # noqa: S608 - constants
    for table, names in _COLUMNS.items()
}
_ADD_WORDS = {
    "sqlite": Prepared("INSERT INTO certificate_text (rowid, words) VALUES (:position, :words)"),
    "postgresql": Prepared(
        "INSERT INTO certificate_text (position, words) VALUES (:position, to_tsvector('simple', :words))"
    ),
}
# A contentless full-text table cannot delete single rows without the original words.
_REMOVE_WORDS = Prepared(
    "INSERT INTO certificate_text (certificate_text, rowid, words) VALUES ('delete', :position, :words)"
)
_NO_WORDS = {
    "sqlite": Prepared("INSERT INTO certificate_text (certificate_text) VALUES ('delete-all')"),
    "postgresql": Prepared("DELETE FROM certificate_text"),
}
