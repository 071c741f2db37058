"""Import third-party certificates into the archive as unverified texts.

They are stored in a table of their own. Verification, the gate and listings read only the table of issued certificates
and the transparency log, never these texts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.certificates.audit.document import DocumentKind
from esper_agents.certificates.audit.files import UnreadableError, read_bytes
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.plain_text import plain
from esper_agents.storage.projects import note_project

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from esper_agents.certificates.audit.auditing import AuditedDocument
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store, Transaction

_LONGEST = 1000
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class ImportCount:
    """Result of an import.

    Attributes:
        added: Number of imported certificates.
        known: Number already imported with the same path and bytes.
        passed_over: Number of files that are not certificates, unreadable, or changed after the audit.
    """

    added: int
    known: int
    passed_over: int


@dataclass(frozen=True, slots=True)
class ImportedCertificate:
    """Row of a listing of imported certificates.

    Attributes:
        id: `imp_` identifier.
        path: Original path, relative to the project.
        sha256: SHA-256 digest of its bytes.
        agent: Author named in the document.
        status: Status stated in the document, verbatim; not a verdict of this program.
        component: Component named in the document.
        dated: Date stated in the document, verbatim.
        problems: Codes of the audit problems at import.
        imported_at: Time of the import.
    """

    id: str
    path: str
    sha256: str
    agent: str
    status: str
    component: str
    dated: str
    problems: tuple[str, ...]
    imported_at: str


def import_certificates(store: Store, project: Project, root: Path, audited: Iterable[AuditedDocument]) -> ImportCount:
    """Import certificates; the same path with the same bytes is imported once.

    Args:
        store: The database.
        project: Project that will own them.
        root: Folder of the project.
        audited: Audit results.
    """
    wanted = list(audited)
    added = known = passed_over = 0
    for start in range(0, len(wanted), _AT_ONCE):
        rows = [(each, _bytes(each)) for each in wanted[start : start + _AT_ONCE]]
        with store.writing() as transaction:
            note_project(transaction, project)
            for each, data in rows:
                if data is None:
                    passed_over += 1
                elif _add(transaction, project.key, root, each, data):
                    added += 1
                else:
                    known += 1
    return ImportCount(added, known, passed_over)


def imported(store: Store, project_key: str, *, limit: int = 50) -> tuple[ImportedCertificate, ...]:
    """Return the imported certificates, newest first."""
    from sqlalchemy import select

    from esper_agents.storage.tables import imported as table

    columns = [column for column in table.c if column.name not in {"project_key", "text"}]
    wanted = select(*columns).where(table.c.project_key == project_key).order_by(table.c.id.desc()).limit(limit)
    with store.reading() as connection:
        return tuple(
            ImportedCertificate(**{**each._mapping, "problems": _codes(each.problems)})  # noqa: SLF001 - SQLAlchemy's public name
            for each in connection.execute(wanted)
        )


def _bytes(audited: AuditedDocument) -> bytes | None:
    if audited.kind is not DocumentKind.CERTIFICATE or not audited.sha256:
        return None
    try:
        data = read_bytes(audited.file)
    except UnreadableError:
        return None
    return data if sha256(data).hexdigest() == audited.sha256 else None


def _add(transaction: Transaction, key: str, root: Path, audited: AuditedDocument, data: bytes) -> bool:
    from sqlalchemy import insert, select
    from sqlalchemy.exc import IntegrityError

    from esper_agents.certificates.audit.auditing import shown_path
    from esper_agents.storage.tables import imported as table

    path = plain(shown_path(audited.file.parent.resolve() / audited.file.name, root))
    same = (table.c.project_key == key, table.c.path == path, table.c.sha256 == audited.sha256)
    if transaction.connection.scalar(select(table.c.id).where(*same)) is not None:
        return False
    row = {
        "id": new_id(Prefix.IMPORTED),
        "project_key": key,
        "path": path,
        "sha256": audited.sha256,
        "agent": _short(audited.agent),
        "status": _short(audited.status),
        "component": _short(audited.component),
        "dated": _short(audited.dated),
        "problems": json.dumps([asdict(problem) for problem in audited.problems], ensure_ascii=True, sort_keys=True),
        "text": data,
        "imported_at": transaction.at,
    }
    try:
        with transaction.connection.begin_nested():
            transaction.connection.execute(insert(table).values(row))
    except IntegrityError:
        # Another process imported it at the same moment.
        return False
    return True


def _short(text: str) -> str:
    return plain(text[:_LONGEST])


def _codes(problems: str) -> tuple[str, ...]:
    return tuple(sorted({load["code"] for load in json.loads(problems)}))
