"""Rebuild indexes, views, envelopes, proofs and pins from the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.archive import search_index as index
from esper_agents.archive import store as archive
from esper_agents.archive.inspection import audit_log_faults, keyring
from esper_agents.archive.published_notices import (
    NoticeFolders,
    colleagues_among,
    is_objection,
    notice_files,
    sealed_files,
    unlogged,
)
from esper_agents.archive.publishing import publish, view_places
from esper_agents.archive.record_audit import audit_records, restore_notes
from esper_agents.archive.search.filters import Filter
from esper_agents.archive.search_index_audit import audit_index
from esper_agents.archive.verified_loading import load_verified
from esper_agents.certificates.log import pins, transparency_log
from esper_agents.certificates.log.faults import MOST_OF_A_KIND, FaultKind
from esper_agents.certificates.log.rebuild import LogRebuildResult, rebuild_log
from esper_agents.certificates.log_entry import carry_key_notices, enter_unlogged
from esper_agents.certificates.notices import enter_notice, log_notices
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import parse
from esper_agents.certificates.views.file_names import short_view_name
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
from esper_agents.errors import EsperError, EvidenceError, IntegrityError, NotFoundError
from esper_agents.paths import home
from esper_agents.storage import session_search_index
from esper_agents.storage.projects import note_project

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from sqlalchemy import Connection

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.published_notices import SealedFile
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class SeparatedView:
    """View that version 0.1.0 published under another certificate's name, with its new name.

    Attributes:
        certificate: `crt_` identifier.
        old: Name that both had.
        new: New name.
        kept_by: Certificate that keeps the old name.
    """

    certificate: str
    old: str
    new: str
    kept_by: str


@dataclass(frozen=True, slots=True)
class RepairResult:
    """Result of a repair.

    Attributes:
        entered: Number of certificates from before the log that were signed and logged.
        restored: Notices of published files that were logged again.
        nodes: Number of log nodes rebuilt from the entries.
        is_signed: Whether a new checkpoint was signed for the existing entries.
        corrected: Certificates whose archive columns differed from their statements.
        reindexed: Certificates whose index rows differed from their statements; at most 20.
        may_have_reindexed_more: Whether there may be others: the index audit lists at most this many.
        separated: Certificates whose files version 0.1.0 published under the name of another one, oldest first.
        notes: Memory notes restored as their certificates created them.
        written: Files that were rewritten because they differed.
        accepted: Log faults that were accepted and recorded in the log.
        left: Remaining faults, each with the reason.
        is_authentic: Whether none of the remaining faults is a changed certificate or an inconsistent log.
    """

    entered: int
    restored: tuple[str, ...]
    nodes: int
    is_signed: bool
    corrected: tuple[str, ...]
    reindexed: tuple[str, ...]
    may_have_reindexed_more: bool
    separated: tuple[SeparatedView, ...]
    notes: tuple[str, ...]
    written: tuple[Path, ...]
    accepted: tuple[str, ...]
    left: tuple[str, ...]
    is_authentic: bool

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was repaired and nothing is wrong."""
        done = (self.entered, self.restored, self.nodes, self.is_signed, self.corrected, self.reindexed)
        return not any((*done, self.separated, self.notes, self.written, self.accepted, self.left))


def repair(store: Store, place: ProjectPlace, *, accept_rollback: bool = False, by: str = "") -> RepairResult:
    """Rebuild everything that can be derived from the log. Idempotent.

    Archived certificates without an entry are not signed if the log was pinned before: they may be forged.

    Args:
        store: The archive.
        place: Project with the places of its certificates.
        accept_rollback: Whether to continue a log that lost entries; its pinned checkpoint is recorded in the log.
        by: Name of the user who accepts the loss.

    Raises:
        IntegrityError: The log contradicts its pin, and that is not accepted.
    """
    with store.reading() as connection:
        found = pins.faults_by_pin(connection, home(), store.where, place.project.key)
    # Nodes are rebuilt from the entries, which must then match the pin.
    by_pin = {whose: each for whose, each in found if each.kind is not FaultKind.NODE_MISSING}
    faults = tuple(by_pin.values())
    if faults and not accept_rollback:
        what = "; ".join(f"{fault.kind}: {fault.detail}" for fault in faults)
        raise IntegrityError(
            f"transparency log is inconsistent with its pin or checkpoint ({what})", remedy=transparency_log.RESTORE
        )
    for whose in by_pin:
        _accept(store, place, by, whose)
    published = _published_notices(store, place)
    files = [file for some in published.values() for file in some]
    colleagues = colleagues_among(store, place.project.key, files, keyring(place.project))
    differing = audit_index(store).listed
    with store.writing() as transaction:
        mended = _mend(transaction, place, store)
        entered = enter_unlogged(transaction, str(store.where), place.project.key)
        rebuilt = index.rebuild(transaction.connection)
        session_search_index.rebuild(transaction)
        restored = tuple(_restore_notices(transaction, place, published, colleagues))
    notes, tampered = _restored_notes(store, place)
    views = _publish_all(store, place)
    remaining = (
        *audit_log_faults(store, place.project).faults,
        *audit_records(store, place.project.key).faults.listed,
    )
    wrong = [(each.where, f"{each.kind}: {each.detail}") for each in remaining]
    named = {where for where, _ in wrong}
    wrong += [(name, problem) for name, problem in tampered.items() if name not in named]
    unwritten = [(name, problem) for name, problem in views.left if name not in named | tampered.keys()]
    return RepairResult(
        entered=entered,
        restored=restored,
        nodes=mended.nodes,
        is_signed=mended.is_signed,
        corrected=rebuilt.corrected,
        reindexed=tuple(dict.fromkeys(each.where for each in differing)),
        may_have_reindexed_more=len(differing) >= MOST_OF_A_KIND,
        separated=views.separated,
        notes=notes,
        written=views.written,
        accepted=tuple(f"{fault.kind}: {fault.detail}" for fault in faults),
        left=tuple(f"{name}: {problem}" for name, problem in (*wrong, *unwritten)),
        is_authentic=not wrong,
    )


def _restored_notes(store: Store, place: ProjectPlace) -> tuple[tuple[str, ...], dict[str, str]]:
    """Restore the notes of authentic certificates; return them, and the certificates that are not authentic."""
    written: list[str] = []
    wrong: dict[str, str] = {}
    for entry in archive.pages(store, place.project.key, Filter()):
        try:
            issued = parse(load_verified(store, place.project, place.home, entry.id).data)
        except IntegrityError as error:
            wrong[entry.id] = error.problem
        except EvidenceError:
            # An untrusted key is for the user to decide, and is not damage.
            continue
        else:
            written += restore_notes(store, place.project.key, issued)
    return tuple(written), wrong


def _mend(
    transaction: Transaction, place: ProjectPlace, store: Store, *, accepts_loss: bool = False
) -> LogRebuildResult:
    connection, project_key = transaction.connection, place.project.key
    if not transparency_log.origin(connection, transparency_log.log_of(connection, project_key)) and not accepts_loss:
        return LogRebuildResult(0, is_signed=False)
    keys = [span.public_key for span in keyring(place.project, connection).history.spans.values()]
    pin = None if accepts_loss else pins.pinned(home(), store.where, pins.pinned_for(connection, project_key))
    return rebuild_log(transaction, project_key, signing_key(home()), keys, pin=pin, accepts_loss=accepts_loss)


def _published_notices(store: Store, place: ProjectPlace) -> dict[str, tuple[SealedFile, ...]]:
    """Return the notice files next to each certificate's views, by certificate; those without any are omitted."""
    found = {}
    folders = NoticeFolders()
    for entry in archive.pages(store, place.project.key, Filter()):
        try:
            views = view_places(place, entry, parse(archive.read(store, entry.id)))
        except IntegrityError:
            continue
        if files := [path for view in views for path in notice_files(view, folders)]:
            found[entry.id] = sealed_files(files, entry.id)
    return found


def _restore_notices(
    transaction: Transaction,
    place: ProjectPlace,
    published: Mapping[str, tuple[SealedFile, ...]],
    colleagues: Collection[str],
) -> Iterator[str]:
    """Log the notices again that a trusted key signed and the log lost, oldest first; yield a description of each.

    A colleague's revocation is not logged: signed again here, it would be one by the signer of the certificate.
    """
    connection = transaction.connection
    keys, log_id = keyring(place.project, connection), transparency_log.log_of(connection, place.project.key)
    lost = []
    for certificate_id, files in published.items():
        logged = {
            log_notice.notice
            for log_notice in log_notices(transparency_log.notices_about(connection, log_id, certificate_id))
        }
        names = {each.id for each in logged}
        found = [
            each
            for each in unlogged(files, certificate_id, logged, keys, colleagues)
            if not is_objection(each, _signer(connection, log_id, certificate_id), keys)
        ]
        lost += [each for each in found if each.is_by_good_key and each.notice.id not in names]
    for each in sorted(lost, key=lambda one: (one.notice.at, one.notice.id)):
        enter_notice(transaction, place.project.key, each.notice)
        yield f"{each} on {each.notice.certificate}"


def _signer(connection: Connection, log_id: int, certificate_id: str) -> str:
    """Return the fingerprint of the key that signed a certificate; empty if the log does not contain it."""
    try:
        return transparency_log.entry(connection, log_id, certificate_id).key_id
    except NotFoundError:
        return ""


def _accept(store: Store, place: ProjectPlace, by: str, pinned_as: str) -> None:
    before = pins.pinned_note(home(), store.where, pinned_as)
    with store.writing() as transaction:
        # A new database that replaces a deleted one does not know the project.
        note_project(transaction, place.project)
        carry_key_notices(transaction, place.project.key)
        _mend(transaction, place, store, accepts_loss=True)
        notice = LogNoticeStatement(
            id=new_id(Prefix.NOTICE),
            kind=NoticeKind.ROLLBACK_ACCEPTED,
            at=transaction.at,
            by=by,
            reason="entries of the log are gone, and a person went on without them",
            before=before,
        )
        logged = enter_notice(transaction, place.project.key, notice)
        now_as = pins.pinned_for(transaction.connection, place.project.key)
    pins.accept(home(), store.where, now_as, logged.checkpoint_note)
    if pinned_as != now_as:
        # The previous log is gone; its checkpoint is recorded in the notice.
        pins.accept(home(), store.where, pinned_as, "")


@dataclass(frozen=True, slots=True)
class _PublishedAll:
    separated: tuple[SeparatedView, ...]
    written: tuple[Path, ...]
    left: tuple[tuple[str, str], ...]


def _publish_all(store: Store, place: ProjectPlace) -> _PublishedAll:
    written: dict[Path, None] = {}
    separated: list[SeparatedView] = []
    left: list[tuple[str, str]] = []
    for entry in archive.everything(store, place.project.key):
        try:
            files = publish(store, place, entry.id)
            separated += _separated(store, place, entry) if files else ()
        except EsperError as error:
            left.append((entry.id, error.problem))
        else:
            written |= dict.fromkeys(files)
    return _PublishedAll(tuple(reversed(separated)), tuple(written), tuple(left))


def _separated(store: Store, place: ProjectPlace, entry: CertificateSummary) -> tuple[SeparatedView, ...]:
    """Return the description of a certificate with digits in its name because another one has the short name."""
    issued = parse(archive.read(store, entry.id))
    old = short_view_name(issued)
    kept_by = archive.id_of_view_name(store, place.project.key, old) if entry.view_name != old else ""
    return (SeparatedView(entry.id, old, entry.view_name, kept_by),) if kept_by else ()
