"""Inspect a certificate in the local archive: envelope, proof, later entries, keys."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.changes.countersignatures import check_countersignatures
from esper_agents.archive.search_index_audit import audit_index
from esper_agents.archive.verification.signature import Keyring
from esper_agents.archive.verification.supersession import (
    SupersedingEntry,
    forged_notices,
    later_entries,
    override_of,
    relations,
)
from esper_agents.certificates.check import Check, CheckOutcome, claim
from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log.audit_log import audit_log
from esper_agents.certificates.log.deep_audit import deep_audit
from esper_agents.certificates.notices import log_notices
from esper_agents.certificates.signing.dsse import envelope_bytes
from esper_agents.certificates.signing.key_history import key_history
from esper_agents.certificates.signing.trusted_keys import TrustedKey, TrustOrigin, trusted
from esper_agents.certificates.statement import parse
from esper_agents.certificates.views.file_names import accepted_view_names
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import IntegrityError, NewerRecordError, NotFoundError
from esper_agents.paths import home
from esper_agents.storage.artifacts import Artifacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from esper_agents.archive.store import CertificateSummary
    from esper_agents.archive.verification.supersession import Override
    from esper_agents.certificates.log.audit_log import LogAudit
    from esper_agents.certificates.log.note import SignedNote
    from esper_agents.certificates.log.transparency_log import LogEntry
    from esper_agents.certificates.signing.allowed_signers import Signer
    from esper_agents.certificates.signing.key_history import LogNotice
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store

ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class CertificateInspection:
    """Certificate as stored in the local archive, with its check results.

    Attributes:
        entry: Listing row of the certificate.
        data: Bytes of the statement; None if they differ from those issued.
        envelope: Bytes of the signed envelope; None if it was issued before logs existed.
        proof: Inclusion proof; None in the same case.
        index: Index of its log entry; None in the same case.
        later: Later entries that end it.
        checks: Checks of the origin of the bytes.
        complete: Checks for missing parts of the log and missing artifacts.
        countersigned: Checks of its countersignatures.
        overridden: Override of its status by a user, if any.
        notices: Notices about it in the log, oldest first.
    """

    entry: CertificateSummary
    data: bytes | None
    envelope: bytes | None
    proof: bytes | None
    index: int | None
    later: tuple[SupersedingEntry, ...]
    checks: tuple[Check, ...]
    complete: tuple[Check, ...]
    countersigned: tuple[Check, ...]
    overridden: Override | None
    notices: tuple[LogNotice, ...] = ()


@dataclass(frozen=True, slots=True)
class UnknownSigner:
    """Key that signed entries of a log and is not known here.

    Attributes:
        key_id: Fingerprint of the key.
        entries: Number of those entries.
    """

    key_id: str
    entries: int


def unknown_signers(store: Store, project: Project) -> tuple[UnknownSigner, ...]:
    """Return the keys of the project's log that are neither trusted nor added to the log by a trusted key."""
    with store.reading() as connection:
        history = keyring(project, connection).history
        signed = transparency_log.signers(connection, transparency_log.log_of(connection, project.key))
    return tuple(UnknownSigner(key_id, count) for key_id, count in signed.items() if key_id not in history.spans)


def keyring(project: Project | None, connection: Connection | None = None, given: Sequence[Signer] = ()) -> Keyring:
    """Return the accepted keys of a project.

    Args:
        project: Project whose keys are trusted; None for none.
        connection: Archive whose log contains key notices; None for none.
        given: Additional trusted keys of this call.
    """
    found = trusted(home(), Path(project.root) if project else None, project.key if project else "")
    found = replace(found, keys=(*found.keys, *(TrustedKey(each, TrustOrigin.GIVEN) for each in given)))
    notices = _all_notices(connection, project) if connection is not None else ()
    return Keyring(found, key_history(notices, found.roots()))


def _all_notices(connection: Connection, project: Project | None) -> Iterator[LogNotice]:
    return log_notices(
        transparency_log.notices(connection, transparency_log.log_of(connection, project.key if project else ""))
    )


def audit_log_faults(store: Store, project: Project, published: Sequence[tuple[str, SignedNote]] = ()) -> LogAudit:
    """Audit the whole log of an archive.

    Args:
        store: The archive.
        project: Project whose trusted keys apply.
        published: Checkpoints from elsewhere, each with its location.
    """
    with store.reading() as connection:
        keys = {span.key_id: span.public_key for span in keyring(project, connection).history.spans.values()}
    shallow = audit_log(store, home(), project.key, tuple(keys.values()), published)
    known = {(fault.kind, fault.where) for fault in shallow.faults}
    found, counts = list(shallow.faults), Counter(shallow.counts)
    for deep in (deep_audit(store, project.key, keys), audit_index(store)):
        fresh = [each for each in deep.listed if (each.kind, each.where) not in known]
        known |= {(each.kind, each.where) for each in fresh}
        found += fresh
        counts |= deep.counts
    return replace(shallow, faults=tuple(found), counts=dict(counts))


def inspect_certificate(
    store: Store, project: Project, folder: Path, certificate_id: str, given: Sequence[Signer] = ()
) -> tuple[CertificateInspection, Keyring]:
    """Return a certificate of the archive with its check results, and the accepted keys.

    Args:
        store: The archive.
        project: Project of the certificate.
        folder: Folder of the project in the data directory.
        certificate_id: ID, end of an ID, or `latest`.
        given: Additional trusted keys of this call.

    Raises:
        NotFoundError: The project has no such certificate.
    """
    entry = archive.find(store, project.key, certificate_id)
    with store.reading() as connection:
        keys = keyring(project, connection, given)
        log_id = transparency_log.log_of(connection, project.key)
        data, archived = _data(store, entry)
        envelope, proof, index, logged = _entered(connection, log_id, entry.id)
        later = later_entries(connection, log_id, entry.id, keys)
        pinned = pins.check_pin(connection, home(), store.where, project.key)
        related = relations(connection, entry.position)
        also = check_countersignatures(connection, log_id, entry.id, data, keys) if data is not None else ()
        said = tuple(transparency_log.notices_about(connection, log_id, entry.id))
    overridden = override_of(log_notices(said), data, keys.history) if data is not None else None
    listed = (_columns(entry, parse(data), related),) if data is not None else ()
    checks = (archived, *logged, *listed, *_notices(said, keys))
    complete = (
        claim("log", [each.detail for each in pinned], "log is consistent with the pinned checkpoint"),
        *(_artifacts(parse(data), folder / "artifacts") if data is not None else ()),
    )
    notices = tuple(log_notices(said))
    return CertificateInspection(
        entry, data, envelope, proof, index, later, checks, complete, also, overridden, notices
    ), keys


def _data(store: Store, entry: CertificateSummary) -> tuple[bytes | None, Check]:
    try:
        data = archive.read(store, entry.id)
        parse(data)
    except IntegrityError as error:
        outcome = CheckOutcome.CANNOT_DECIDE if isinstance(error, NewerRecordError) else CheckOutcome.FAILS
        return None, Check(ARCHIVE, outcome, error.problem)
    return data, Check(ARCHIVE, CheckOutcome.HOLDS, f"bytes match the certificate issued at {entry.issued_at}")


def _entered(
    connection: Connection, log_id: int, certificate_id: str
) -> tuple[bytes | None, bytes | None, int | None, tuple[Check, ...]]:
    try:
        sealed = transparency_log.envelope(connection, log_id, certificate_id)
        proof = transparency_log.proof(connection, log_id, certificate_id)
        index = transparency_log.entry(connection, log_id, certificate_id).idx
    except NotFoundError:
        if transparency_log.origin(connection, log_id):
            return None, None, None, (Check("log", CheckOutcome.FAILS, "log has no entry for the certificate"),)
        why = "issued before the log existed; `esper certificates repair` signs and logs it"
        return None, None, None, (Check("log", CheckOutcome.CANNOT_DECIDE, why),)
    except IntegrityError as error:
        return None, None, None, (Check("log", CheckOutcome.FAILS, error.problem),)
    return envelope_bytes(sealed), proof.encode(), index, ()


def _notices(said: Sequence[LogEntry], keys: Keyring) -> Iterator[Check]:
    if said:
        wrong = [
            f"log entry of notice {each.record_id} was changed"
            for each in said
            if not transparency_log.is_as_entered(each)
        ]
        wrong += [
            f"signature of notice {forged_notice} does not match its key"
            for forged_notice in forged_notices(log_notices(said), keys.history)
        ]
        yield claim("notices", wrong, "all notices match their log entries")


def _columns(entry: CertificateSummary, issued: Certificate, related: frozenset[tuple[str, str]]) -> Check:
    said: dict[str, tuple[object, object]] = {
        "identifier": (entry.id, issued.id),
        "relation": (related, frozenset((relation.certificate, str(relation.kind)) for relation in issued.relations)),
        "session": (entry.session, issued.session),
        "time": (entry.issued_at, issued.issued_at),
        "agent": (entry.agent, issued.agent),
        "kind": (entry.kind, issued.verdict.kind),
        "status": (entry.status, issued.verdict.status),
        "ceiling": (entry.ceiling, issued.verdict.ceiling.status),
        "descriptor": (entry.descriptor, issued.descriptor),
        "component": (entry.component, issued.component),
        "request": (entry.request, issued.task.request),
        "commit": (entry.commit, issued.revision.commit),
        "view name": (entry.view_name in accepted_view_names(issued), True),
    }
    wrong = [
        f"archive index has another {name} than the statement" for name, (one, other) in said.items() if one != other
    ]
    return claim("index", wrong, "archive index matches the statement")


def _artifacts(issued: Certificate, folder: Path) -> Iterator[Check]:
    made = {artifact.sha256: artifact.name for evidence in issued.evidence for artifact in evidence.artifacts}
    if made:
        store, gone = Artifacts(folder), []
        for digest, name in made.items():
            try:
                store.path(digest)
            except NotFoundError:
                gone.append(f"{name} is missing (sha256:{digest})")
            except IntegrityError as error:
                gone.append(error.problem)
        yield claim("artifacts", gone, f"{number_of(len(made), 'artifact')} unchanged")
