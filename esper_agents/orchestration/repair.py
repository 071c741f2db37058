"""Puts right what can be made again from the rows of the log: indexes, views, envelopes, proofs, pins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.certificates import archive, index
from esper_agents.certificates.entering import enter_unlogged
from esper_agents.certificates.filters import Filter
from esper_agents.certificates.log import log, pins
from esper_agents.certificates.log.faults import FaultKind
from esper_agents.certificates.log.mending import Mended, mend
from esper_agents.certificates.notices import enter_notice, log_notices
from esper_agents.certificates.sealing.keys import signing_key
from esper_agents.certificates.statement import parse
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.notice import Notice, NoticeKind
from esper_agents.errors import EsperError, EvidenceError, IntegrityError
from esper_agents.orchestration.genuine import genuine
from esper_agents.orchestration.holding import audited, keyring
from esper_agents.orchestration.publish import publish, view_path
from esper_agents.orchestration.published_notices import notice_files, sealed_files, unlogged
from esper_agents.orchestration.record_audit import audit_records, restore_notes
from esper_agents.paths import home
from esper_agents.storage import session_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from esper_agents.orchestration.published_notices import SealedFile
    from esper_agents.orchestration.workshop import Workshop
    from esper_agents.storage.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did.

    Attributes:
        entered: How many certificates from before there was a log were signed and entered.
        restored: Notices that lay in published files and were entered in the log again.
        nodes: How many nodes of the log were made again from its entries.
        is_signed: Whether a new checkpoint was signed for the entries that are there.
        corrected: Certificates whose columns in the archive were not what their statements say.
        notes: Memory notes that were written again as their certificates left them.
        written: The files that were not as they are to be.
        accepted: What was wrong with the log and is accepted, on record in it.
        left: What is still wrong, each with why.
        is_authentic: Whether nothing of what is left is a certificate or a log that is not what it was.
    """

    entered: int
    restored: tuple[str, ...]
    nodes: int
    is_signed: bool
    corrected: tuple[str, ...]
    notes: tuple[str, ...]
    written: tuple[Path, ...]
    accepted: tuple[str, ...]
    left: tuple[str, ...]
    is_authentic: bool


def repair(store: Store, workshop: Workshop, *, accept_rollback: bool = False, by: str = "") -> Repaired:
    """Make again whatever the log says; run twice in a row, the second changes nothing.

    Nothing is signed that stands in the archive without an entry where a log was seen before: it may be anybody's.

    Args:
        store: The archive.
        workshop: Where files are published.
        accept_rollback: Go on with a log that lost entries; what was last seen of it stays on record in it.
        by: Who accepts that.

    Raises:
        IntegrityError: The log contradicts what was last seen of it, and that is not accepted.
    """
    with store.reading() as connection:
        found = pins.check_pin(connection, home(), store.where)
    # Nodes are made again from the entries, which then must be those of the pin.
    faults = tuple(each for each in found if each.kind is not FaultKind.NODE_MISSING)
    if faults and not accept_rollback:
        what = "; ".join(f"{each.kind}: {each.detail}" for each in faults)
        raise IntegrityError(f"the log is not what it was ({what})", remedy=log.RESTORE)
    if faults:
        _accept(store, workshop, by)
    published = _published_notices(store, workshop)
    with store.writing() as transaction:
        mended = _mend(transaction, workshop, store)
        before = log.size(transaction.connection)
        enter_unlogged(transaction, str(store.where))
        entered = log.size(transaction.connection) - before
        rebuilt = index.rebuild(transaction.connection)
        session_text.rebuild(transaction)
        restored = tuple(_restore_notices(transaction, workshop, published))
    notes, tampered = _restored_notes(store, workshop)
    written, left = _published(store, workshop)
    remaining = (
        *audited(store, workshop.project).faults,
        *audit_records(store, workshop.project.key).faults.told,
    )
    wrong = [(each.where, f"{each.kind}: {each.detail}") for each in remaining]
    named = {where for where, _ in wrong}
    wrong += [(name, problem) for name, problem in tampered.items() if name not in named]
    unwritten = [(name, problem) for name, problem in left if name not in named | tampered.keys()]
    return Repaired(
        entered=entered,
        restored=restored,
        nodes=mended.nodes,
        is_signed=mended.is_signed,
        corrected=rebuilt.corrected,
        notes=notes,
        written=written,
        accepted=tuple(f"{each.kind}: {each.detail}" for each in faults),
        left=tuple(f"{name}: {problem}" for name, problem in (*wrong, *unwritten)),
        is_authentic=not wrong,
    )


def _restored_notes(store: Store, workshop: Workshop) -> tuple[tuple[str, ...], dict[str, str]]:
    """Write the notes again that authentic certificates left; return them, and which certificates are not authentic."""
    written: list[str] = []
    wrong: dict[str, str] = {}
    for entry in archive.pages(store, workshop.project.key, Filter()):
        try:
            issued = parse(genuine(store, workshop.project, workshop.home, entry.id).data)
        except IntegrityError as error:
            wrong[entry.id] = error.problem
        except EvidenceError:
            # That a key is not trusted here is for its owner to change, and no damage.
            continue
        else:
            written += restore_notes(store, workshop.project.key, issued)
    return tuple(written), wrong


def _mend(transaction: Transaction, workshop: Workshop, store: Store, *, accepts_loss: bool = False) -> Mended:
    if not log.origin(transaction.connection) and not accepts_loss:
        return Mended(0, is_signed=False)
    keys = [each.public_key for each in keyring(workshop.project, transaction.connection).history.spans.values()]
    pin = None if accepts_loss else pins.pinned(home(), store.where)
    return mend(transaction, signing_key(home()), keys, pin=pin, accepts_loss=accepts_loss)


def _published_notices(store: Store, workshop: Workshop) -> dict[str, tuple[SealedFile, ...]]:
    """Return the notice files beside each certificate's views, by certificate; those without any are not in it."""
    found = {}
    for entry in archive.pages(store, workshop.project.key, Filter()):
        views = (view_path(each, entry) for each in (workshop, replace(workshop, publish=False)))
        if files := [path for view in dict.fromkeys(views) for path in notice_files(view)]:
            found[entry.id] = sealed_files(files, entry.id)
    return found


def _restore_notices(
    transaction: Transaction, workshop: Workshop, published: Mapping[str, tuple[SealedFile, ...]]
) -> Iterator[str]:
    """Enter the notices again that a trusted key signed and that the log lost, oldest first; yield each in words."""
    keys = keyring(workshop.project, transaction.connection)
    lost = []
    for certificate_id, files in published.items():
        logged = {each.notice for each in log_notices(log.notices_about(transaction.connection, certificate_id))}
        names = {each.id for each in logged}
        found = unlogged(files, certificate_id, logged, keys)
        lost += [each for each in found if each.is_by_good_key and each.notice.id not in names]
    for each in sorted(lost, key=lambda one: (one.notice.at, one.notice.id)):
        enter_notice(transaction, workshop.project.key, each.notice)
        yield f"{each} on {each.notice.certificate}"


def _accept(store: Store, workshop: Workshop, by: str) -> None:
    before = pins.pinned_note(home(), store.where)
    with store.writing() as transaction:
        _mend(transaction, workshop, store, accepts_loss=True)
        notice = Notice(
            id=new_id(Prefix.NOTICE),
            kind=NoticeKind.ROLLBACK_ACCEPTED,
            at=transaction.at,
            by=by,
            reason="entries of the log are gone, and a person went on without them",
            before=before,
        )
        logged = enter_notice(transaction, workshop.project.key, notice)
    pins.accept(home(), store.where, logged.checkpoint_note)


def _published(store: Store, workshop: Workshop) -> tuple[tuple[Path, ...], tuple[tuple[str, str], ...]]:
    written: dict[Path, None] = {}
    left: list[tuple[str, str]] = []
    for entry in archive.everything(store, workshop.project.key):
        try:
            agents = [each.agent for each in parse(archive.read(store, entry.id)).definitions]
            written |= dict.fromkeys(publish(store, workshop, entry.id, agents))
        except EsperError as error:
            left.append((entry.id, error.problem))
    return tuple(written), tuple(left)
