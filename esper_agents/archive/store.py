"""Append-only SQL archive of certificates: append, list and find."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from esper_agents.archive import search_index as index
from esper_agents.archive.search.filter_conditions import LOGGED, in_common_by_time, sources
from esper_agents.archive.search.filters import Filter
from esper_agents.archive.search.full_text import positions_beginning
from esper_agents.archive.search.posting_lists import ABOVE_ALL, LISTED, in_common
from esper_agents.archive.search_index import ending_word
from esper_agents.certificates.views.file_names import view_names
from esper_agents.domain.status import QuestionType, Status
from esper_agents.errors import IntegrityError, NoCertificatesError, NotFoundError
from esper_agents.storage.compiled_statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from esper_agents.archive.search.filter_conditions import SignatureTable
    from esper_agents.domain.certificate import Certificate
    from esper_agents.storage.store import Store, Transaction


class CertificateOrigin(StrEnum):
    """Place that a certificate of a listing was read from."""

    LOCAL = "local"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class CertificateSummary:
    """Row of a certificate listing.

    Attributes:
        position: Its position in the archive, from 1.
        id: `crt_` identifier.
        session: The session it came from.
        issued_at: Time of its conclusion.
        agent: Agent that concluded.
        kind: Question type.
        status: Status of the verdict.
        ceiling: Best status that the policy allowed.
        descriptor: Kind of work, such as a review.
        component: Component that the verdict is about.
        request: Text of the user's request.
        commit: Git commit at that time, or empty.
        view_name: Stored name of its Markdown view; `publish.view_path` validates it before use as a file name.
        sha256: SHA-256 digest of the statement bytes.
        origin: Whether it was issued here, or was read from the published files of the project.
        is_trusted: Whether a key that the user trusts signed it; an untrusted one counts for nothing.
        signer: Owner of the key if it is trusted and the certificate was published elsewhere; else empty.
        key_id: Fingerprint of the key that a published certificate names; empty for a local one.
    """

    position: int
    id: str
    session: str
    issued_at: str
    agent: str
    kind: QuestionType
    status: Status
    ceiling: Status
    descriptor: str
    component: str
    request: str
    commit: str
    view_name: str
    sha256: str
    origin: CertificateOrigin = CertificateOrigin.LOCAL
    is_trusted: bool = True
    signer: str = ""
    key_id: str = ""


def add(transaction: Transaction, project_key: str, certificate: Certificate, data: bytes) -> str:
    """Append a certificate under the first of its names that is free in the project.

    Returns:
        SHA-256 digest of the statement bytes.

    Raises:
        IntegrityError: Other certificates use all its names.
    """
    return insert_certificate(transaction, project_key, certificate, data, view_names(certificate))


def insert_certificate(
    transaction: Transaction, project_key: str, certificate: Certificate, data: bytes, names: Sequence[str]
) -> str:
    """Append a certificate under the first of some names that is free in the project; see `add`."""
    digest = sha256(data).hexdigest()
    row = {
        "id": certificate.id,
        "project_key": project_key,
        "sha256": digest,
        "statement": data,
        **{name: str(value) for name, value in index.columns(certificate).items()},
    }
    for name in names:
        position = _insert_unless_taken(transaction.connection, {**row, "view_name": name})
        if position is not None:
            index.add(transaction.connection, position, certificate)
            return digest
    raise IntegrityError(
        f"all names of certificate {certificate.id} are used by other certificates",
        remedy="run `esper certificates repair`",
    )


def _insert_unless_taken(connection: Connection, row: dict[str, Any]) -> int | None:
    """Insert a row and return its position; return None if another certificate of the project has its name."""
    position = _INSERT.scalar(connection, row)
    return None if position is None else int(position)


_INSERT = Prepared(
    "INSERT INTO certificate (id, session_id, project_key, issued_at, agent, kind, status, ceiling, descriptor,"
    " component, request, revision, view_name, sha256, statement) VALUES (:id, :session_id, :project_key, :issued_at,"
    " :agent, :kind, :status, :ceiling, :descriptor, :component, :request, :revision, :view_name, :sha256, :statement)"
    " ON CONFLICT (project_key, view_name) DO NOTHING RETURNING position"
)


def id_of_view_name(store: Store, project_key: str, view_name: str) -> str:
    """Return the ID of the project's certificate with this view name, or an empty string."""
    with store.reading() as connection:
        return str(_NAMED_LIKE.scalar(connection, {"project": project_key, "name": view_name}) or "")


_NAMED_LIKE = Prepared("SELECT id FROM certificate WHERE project_key = :project AND view_name = :name")


def listing(
    store: Store, project_key: str, *, wanted: Filter | None = None, before: str = "", limit: int = 50
) -> tuple[CertificateSummary, ...]:
    """Return the certificates of a project, newest first: in archive order, or by time if filtered by date.

    Args:
        store: The database.
        project_key: Key of the project.
        wanted: Filter; all certificates if omitted.
        before: Cursor: return only certificates after this one in that order (ID, end of an ID, or `latest`).
        limit: Maximum number of certificates.

    Raises:
        NotFoundError: No certificate matches `before`.
        UsageError: The search words contain neither a letter nor a digit.
    """
    last = find(store, project_key, before) if before else None
    with store.reading() as connection:
        places = positions(connection, project_key, wanted or Filter(), last=last, limit=limit)
        return tuple(_entries(connection, places))


def positions(
    connection: Connection, project_key: str, wanted: Filter, *, last: CertificateSummary | None = None, limit: int
) -> list[int]:
    """Return the archive positions of `listing`.

    Args:
        connection: The archive.
        project_key: Key of the project.
        wanted: Filter.
        last: Certificate that precedes the result; None for the first page.
        limit: Maximum number of positions.

    Raises:
        UsageError: The search words contain neither a letter nor a digit.
    """
    columns, others = sources(connection, project_key, wanted)
    if wanted.since or wanted.until:
        start = (last.issued_at, last.position) if last else None
        return in_common_by_time(columns, others, wanted, before=start, limit=limit)
    return in_common((columns, *others), below=last.position if last else ABOVE_ALL, limit=limit)


def listing_by_time(
    store: Store,
    project_key: str,
    *,
    wanted: Filter,
    before: tuple[str, int] | None,
    limit: int,
    signatures: SignatureTable = LOGGED,
) -> tuple[CertificateSummary, ...]:
    """Return the certificates of a project by time of issue, newest first.

    Args:
        store: The database.
        project_key: Key of the project.
        wanted: Filter.
        before: Time of issue and position that all certificates must precede; None for the first page.
        limit: Maximum number of certificates.
        signatures: Table that names the key of each certificate.
    """
    with store.reading() as connection:
        columns, others = sources(connection, project_key, wanted, signatures)
        places = in_common_by_time(columns, others, wanted, before=before, limit=limit)
        return tuple(_entries(connection, places))


def pages(store: Store, project_key: str, wanted: Filter, *, size: int = 500) -> Iterator[CertificateSummary]:
    """Yield all certificates of a project that match a filter, in the order of `listing`, read in small batches."""
    before = ""
    while page := listing(store, project_key, wanted=wanted, before=before, limit=size):
        yield from page
        before = page[-1].id


def everything(store: Store, project_key: str) -> tuple[CertificateSummary, ...]:
    """Return all certificates of a project, newest first."""
    return tuple(pages(store, project_key, Filter()))


def find(store: Store, project_key: str, wanted: str) -> CertificateSummary:
    """Return one certificate of a project by ID, unique end of an ID, or `latest`.

    Raises:
        NotFoundError: No certificate matches, or more than one does.
    """
    given = {"wanted": wanted, "project": project_key, "limit": 1}
    with store.reading() as connection:
        if named := _NAMED.rows(connection, given):
            return _entry(named[0])
        if wanted == "latest":
            found: Sequence[Sequence[Any]] = _NEWEST.rows(connection, given)
        else:
            found = _ending(connection, project_key, wanted.removeprefix("crt_"))
        if len(found) != 1:
            near = found or _NEWEST.rows(connection, {**given, "limit": _NEAREST_AMONG})
            if wanted == "latest":
                raise NoCertificatesError
            raise NotFoundError(
                "certificate", wanted, [_entry(each).id for each in near], listing="esper certificates list"
            )
        return _entry(found[0])


def read(store: Store, certificate_id: str) -> bytes:
    """Return the statement bytes of a certificate.

    Raises:
        IntegrityError: The bytes differ from those that were issued.
    """
    with store.reading() as connection:
        statement = intact_statement(connection, certificate_id)
    if statement is None:
        raise IntegrityError(
            f"archived certificate {certificate_id} was changed after it was issued", remedy="restore a backup"
        )
    return statement


def intact_statement(connection: Connection, certificate_id: str) -> bytes | None:
    """Return the statement bytes of a certificate; None if there is no such one, or its bytes were changed."""
    for statement, digest in _BYTES.rows(connection, {"wanted": certificate_id}):
        # SQLite does not enforce column types: a column may contain text.
        if isinstance(statement, bytes) and sha256(statement).hexdigest() == digest:
            return statement
    return None


# Fewer than six digits match the end of too many IDs.
_END = re.compile(r"[0-9a-f]{6,32}")
_NEAREST_AMONG = 200
_AT_ONCE = 500
_COLUMNS = (
    "position, id, session_id, issued_at, agent, kind, status, ceiling, descriptor, component, request, revision,"
    " view_name, sha256"
)
_OWN = f"SELECT {_COLUMNS} FROM certificate WHERE project_key = :project"  # noqa: S608 - a constant text
_NAMED = Prepared(f"{_OWN} AND id = :wanted")
_NEWEST = Prepared(f"{_OWN} ORDER BY position DESC LIMIT :limit")
_ENDING = Prepared(f"{_OWN} AND id LIKE :pattern LIMIT 2")
_OWN_PLACED = {dialect: Prepared(f"{_OWN} AND position IN ({places})") for dialect, places in LISTED.items()}
_PLACED = {
    dialect: Prepared(f"SELECT {_COLUMNS} FROM certificate WHERE position IN ({places})")  # noqa: S608 - constant texts
    for dialect, places in LISTED.items()
}
_BYTES = Prepared("SELECT statement, sha256 FROM certificate WHERE id = :wanted")


def _ending(connection: Connection, project_key: str, end: str) -> Sequence[Sequence[Any]]:
    """Return the certificates whose IDs have this ending; more than one if it is ambiguous."""
    if not _END.fullmatch(end):
        return []
    found = json.dumps(positions_beginning(connection, ending_word(end)))
    known = _OWN_PLACED[connection.dialect.name].rows(connection, {"project": project_key, "positions": found})
    matches = [row for row in known if _entry(row).id.endswith(end)]
    # A certificate without index rows is found too, but more slowly.
    return matches or _ENDING.rows(connection, {"project": project_key, "pattern": f"%{end}"})


def _entries(connection: Connection, places: Sequence[int]) -> Iterator[CertificateSummary]:
    for start in range(0, len(places), _AT_ONCE):
        some = places[start : start + _AT_ONCE]
        rows = _PLACED[connection.dialect.name].rows(connection, {"positions": json.dumps(list(some))})
        by_place = {row[0]: row for row in rows}
        yield from (_entry(by_place[place]) for place in some)


def _entry(row: Sequence[Any]) -> CertificateSummary:
    position, identifier, session, issued_at, agent, kind, status, ceiling, *others = row
    return CertificateSummary(
        position, identifier, session, issued_at, agent, QuestionType(kind), Status(status), Status(ceiling), *others
    )
