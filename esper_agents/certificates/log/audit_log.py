"""Audit of a whole log: entries, nodes, stored and published checkpoints, and the pin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.certificates.log import merkle, pins, transparency_log
from esper_agents.certificates.log.block_tree import BLOCK, BlockTree, SubtreeRun
from esper_agents.certificates.log.entry_diff import EntryDiff
from esper_agents.certificates.log.faults import MOST_OF_A_KIND, FaultKind, Faults, shown
from esper_agents.certificates.log.note import read_checkpoint, read_note, signer
from esper_agents.certificates.log.rows import LogRows
from esper_agents.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from sqlalchemy import Connection

    from esper_agents.certificates.log.faults import Fault
    from esper_agents.certificates.log.note import Checkpoint, SignedNote
    from esper_agents.storage.store import Store


@dataclass(frozen=True, slots=True)
class LogAudit:
    """Result of a log audit.

    Attributes:
        origin: Name of the log; empty if there is no log.
        size: Number of audited entries.
        faults: Faults, up to 20 of each kind.
        counts: Number of faults of each kind.
        is_pinned: Whether a checkpoint was pinned; without a pin, a loss of the newest entries can go unnoticed.
    """

    origin: str
    size: int
    faults: tuple[Fault, ...]
    counts: Mapping[FaultKind, int]
    is_pinned: bool


@dataclass(frozen=True, slots=True)
class _Claim:
    """Claim that the tree over a number of entries has a root."""

    checkpoint: Checkpoint
    where: str
    kind: FaultKind


def audit_log(
    store: Store,
    home: Path,
    project_key: str,
    public_keys: Collection[bytes],
    published: Iterable[tuple[str, SignedNote]] = (),
) -> LogAudit:
    """Return the faults of a project's log. Memory does not grow with its length.

    Leaf hashes are compared with the nodes, nodes with one another, and the roots with every stored checkpoint, with
    the pin and with checkpoints from elsewhere. Whether statements and signatures give the leaf hashes is for
    `deep_audit`.

    Args:
        store: The database.
        home: `paths.home()`, where the pins are.
        project_key: Key of the project.
        public_keys: Keys accepted for the log.
        published: Checkpoints from elsewhere, such as those of published proofs, each with its location. Those of
            another key or another log are ignored.
    """
    with store.reading() as connection:
        return _Auditor(connection, project_key, public_keys).run(home, store.where, published)


class _Auditor:
    def __init__(self, connection: Connection, project_key: str, public_keys: Collection[bytes]) -> None:
        self.connection = connection
        self.project_key = project_key
        self.log_id = transparency_log.log_of(connection, project_key)
        self.keys = public_keys
        self.faults = Faults()
        self.origin = transparency_log.origin(connection, self.log_id)
        self.rows = LogRows(connection, self.log_id)
        self.size = self._believable(transparency_log.size(connection, self.log_id))
        self.differences = EntryDiff(self.rows, self.faults, self.size)
        self.claims: dict[int, list[_Claim]] = {}

    def run(self, home: Path, where: str | None, published: Iterable[tuple[str, SignedNote]]) -> LogAudit:
        against_pin = pins.check_pin(self.connection, home, where, self.project_key)
        for each in against_pin:
            self.faults.add(each.kind, each.where, each.detail)
        pinned_for = pins.pinned_for(self.connection, self.project_key)
        pin = None if against_pin else pins.pinned(home, where, pinned_for)
        if pin is not None:
            self._claim(_Claim(pin, "pin", FaultKind.FORKED))
        self._take_checkpoints()
        for found_at, note in published:
            self._take_published(found_at, note)
        tree = BlockTree()
        for first in range(0, self.size, BLOCK):
            self._check_block(tree, first, min(first + BLOCK, self.size))
        self._check_left_over()
        self._check_certificates()
        if self.faults.counts.keys() & {FaultKind.CHECKPOINT_CONTRADICTED, FaultKind.NOT_COVERED, FaultKind.FORKED}:
            self._look_closer()
        is_pinned = pin is not None or bool(against_pin)
        return LogAudit(self.origin, self.size, tuple(self.faults.listed), dict(self.faults.counts), is_pinned)

    def _believable(self, size: int) -> int:
        """Return the number of entries to audit: one far index must not make the audit endless."""
        found = self.rows.entries()
        if first := min(0, self.rows.first_entry()):
            self.faults.add(FaultKind.REORDERED, f"entry {first}", "the first entry of a log is entry 0")
        if size <= found + BLOCK:
            return size
        detail = f"there are {found} entries, but the last one has index {size - 1}"
        self.faults.add(FaultKind.MIDDLE_REMOVED, f"entry {size - 1}", detail)
        return found + BLOCK

    def _take_checkpoints(self) -> None:
        newest = 0
        for size, stored in self.rows.checkpoints():
            where = f"checkpoint of {size}"
            try:
                note = read_note(stored)
                head = read_checkpoint(note)
            except IntegrityError as error:
                self.faults.add(FaultKind.CHECKPOINT_CHANGED, where, error.problem)
                continue
            if (head.origin, head.size) != (self.origin, size):
                detail = f"checkpoint names {head.size} entries of {head.origin!r}"
                self.faults.add(FaultKind.CHECKPOINT_CHANGED, where, detail)
                continue
            newest = size
            if signer(note, head.origin, self.keys) is None:
                self.faults.add(FaultKind.UNKNOWN_KEY, where, "not signed by a key of this log")
            elif size > self.size:
                detail = f"checkpoint covers {size} entries, but the log ends after {self.size}"
                self.faults.add(FaultKind.NEWEST_DELETED, where, detail)
            else:
                self._claim(_Claim(head, where, FaultKind.CHECKPOINT_CONTRADICTED))
        if self.size and not newest:
            self.faults.add(FaultKind.CHECKPOINT_MISSING, "log", f"no checkpoint covers its {self.size} entries")
        elif newest < self.size:
            detail = f"newest checkpoint covers {newest} of {self.size} entries"
            self.faults.add(FaultKind.NOT_COVERED, f"entry {newest}", detail)

    def _take_published(self, found_at: str, note: SignedNote) -> None:
        try:
            head = read_checkpoint(note)
        except IntegrityError:
            return
        if head.origin != self.origin or signer(note, head.origin, self.keys) is None:
            return
        if head.size > self.size:
            detail = f"{head.size} entries were published, but the log ends after {self.size}"
            self.faults.add(FaultKind.NEWEST_DELETED, found_at, detail)
        else:
            self._claim(_Claim(head, found_at, FaultKind.FORKED))

    def _claim(self, claim: _Claim) -> None:
        # Checked with the block of its last entry; the empty tree has none.
        if claim.checkpoint.size:
            self.claims.setdefault((claim.checkpoint.size - 1) // BLOCK, []).append(claim)

    def _check_block(self, tree: BlockTree, first: int, last: int) -> None:
        leaves = self.rows.leaves(first, last)
        if len(leaves) != last - first or leaves != self.rows.hashes(0, first, last):
            leaves = self.differences.name(first, last)
        for run in tree.add(leaves):
            self._check_run(run)
        for claim in self.claims.pop(first // BLOCK, ()):
            if merkle.root(claim.checkpoint.size, tree.read) != claim.checkpoint.root:
                detail = f"first {claim.checkpoint.size} entries do not match the signed root"
                self.faults.add(claim.kind, claim.where, detail)

    def _check_run(self, run: SubtreeRun) -> None:
        end = run.first + len(run.hashes)
        if self.rows.hashes(run.level, run.first, end) == run.hashes:
            return
        stored = self.rows.level(run.level, run.first, end)
        for idx, computed in enumerate(run.hashes, run.first):
            where = f"node {idx} on level {run.level}"
            if idx not in stored:
                self.faults.add(FaultKind.NODE_MISSING, where, "node is missing")
            elif stored[idx] != computed:
                self.faults.add(FaultKind.NODE_CHANGED, where, "node is not the hash of its two children")

    def _check_left_over(self) -> None:
        logged, expected = self.rows.leaves_logged(), 2 * self.size - self.size.bit_count()
        if logged > self.size:
            if not self.differences.has_shifted:
                detail = f"{logged} entries were logged, but the log ends after {self.size}"
                self.faults.add(FaultKind.NEWEST_DELETED, f"entry {self.size}", detail)
        elif (found := self.rows.nodes()) > expected:
            detail = f"there are {found} nodes, but {self.size} entries have {expected}"
            self.faults.add(FaultKind.NODE_LEFT_OVER, "log", detail)

    def _check_certificates(self) -> None:
        for record_id, idx in self.rows.entries_without_certificate(MOST_OF_A_KIND + 1):
            detail = f"logged as entry {idx}, but missing from the archive"
            self.faults.add(FaultKind.CERTIFICATE_REMOVED, shown(record_id), detail)
        for certificate_id in self.rows.certificates_without_entry(MOST_OF_A_KIND + 1, self.project_key):
            detail = "archived but not in the log"
            self.faults.add(FaultKind.CERTIFICATE_NOT_LOGGED, shown(certificate_id), detail)

    def _look_closer(self) -> None:
        """Report faults that rebuilt nodes hide: duplicate entries, and entries out of time order."""
        for later, earlier in self.rows.entered_twice(MOST_OF_A_KIND + 1):
            self.faults.add(FaultKind.DUPLICATED, f"entry {later}", f"duplicate of entry {earlier}")
        for idx in self.rows.entered_before_their_time(MOST_OF_A_KIND + 1):
            detail = "its time is earlier than that of the preceding entry"
            self.faults.add(FaultKind.REORDERED, f"entry {idx}", detail)
