"""Rebuild the nodes and the newest checkpoint of a log from its entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, text

from esper_agents.certificates.log import merkle, transparency_log
from esper_agents.certificates.log.block_tree import BLOCK, BlockTree, SubtreeRun
from esper_agents.certificates.log.note import Checkpoint, read_checkpoint, read_note, signer
from esper_agents.certificates.log.rows import LogRows
from esper_agents.errors import IntegrityError
from esper_agents.storage.tables import log_checkpoint, log_node

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from esper_agents.certificates.log.transparency_log import NamedLog
    from esper_agents.certificates.signing.signing_key import SigningKey
    from esper_agents.storage.store import Transaction


@dataclass(frozen=True, slots=True)
class LogRebuildResult:
    """Result of a rebuild; empty if the log was intact.

    Attributes:
        nodes: Number of nodes that were written or removed.
        is_signed: Whether a new checkpoint was signed.
    """

    nodes: int
    is_signed: bool


def rebuild_log(
    transaction: Transaction,
    project_key: str,
    key: SigningKey,
    public_keys: Collection[bytes],
    *,
    pin: Checkpoint | None = None,
    accepts_loss: bool = False,
) -> LogRebuildResult:
    """Rewrite missing or wrong nodes and the newest checkpoint; an intact log is left unchanged.

    Entries are never invented: a new checkpoint is signed only if the pin or a checkpoint of a known key confirms the
    stored entries, unless a user accepts the loss of entries.

    Args:
        transaction: Transaction of the caller; it must be rolled back if this raises.
        project_key: Project that owns the log.
        key: Key that signs a new checkpoint.
        public_keys: Keys accepted for the existing checkpoint.
        pin: Pinned checkpoint, if any.
        accepts_loss: Whether to continue from the entries as they are.

    Raises:
        IntegrityError: Entries in the middle are missing; or they contradict the pin or the checkpoint, or neither
            confirms them, and `accepts_loss` is false.
    """
    connection = transaction.connection
    opened = transparency_log.locked(transaction, project_key)
    log_id, origin, size = opened.id, opened.origin, transparency_log.size(connection, opened.id)
    rows = LogRows(connection, log_id)
    if rows.entries() != size or rows.first_entry() != 0:
        raise IntegrityError("entries in the middle of the log are missing", remedy="restore a backup")
    head = _head(connection, opened, public_keys)
    vouching = [each for each in (pin, head) if each is not None]
    roots, changed = _write_nodes(connection, rows, log_id, size, {each.size for each in vouching})
    if not accepts_loss:
        _refuse_loss(vouching, origin, size, roots)
    root = roots[size]
    stored = [each for each, _ in rows.checkpoints()]
    if head == Checkpoint(origin, size, root) and stored == [size]:
        return LogRebuildResult(changed, is_signed=False)
    if size:
        transparency_log.check_in(transaction, key, log_id, Checkpoint(origin, size, root))
    else:
        changed += connection.execute(delete(log_checkpoint).where(log_checkpoint.c.log_id == log_id)).rowcount
    return LogRebuildResult(changed, is_signed=size > 0)


def _head(connection: Connection, opened: NamedLog, public_keys: Collection[bytes]) -> Checkpoint | None:
    """Return the newest checkpoint if it is valid and signed by a known key."""
    try:
        note = read_note(transparency_log.latest_checkpoint(connection, opened.id))
        head = read_checkpoint(note)
    except IntegrityError:
        return None
    is_of_it = head.origin == opened.origin and signer(note, opened.origin, public_keys) is not None
    return head if is_of_it else None


def _refuse_loss(vouching: list[Checkpoint], origin: str, size: int, roots: dict[int, bytes]) -> None:
    for each in vouching:
        if each.origin != origin or roots.get(each.size) != each.root:
            problem = f"log is inconsistent with the signed or pinned checkpoint of {each.size} entries"
            raise IntegrityError(problem, remedy=transparency_log.RESTORE)
    if size and not any(each.size == size for each in vouching):
        raise IntegrityError(f"no checkpoint or pin covers the {size} stored entries", remedy=transparency_log.RESTORE)


def _write_nodes(
    connection: Connection, rows: LogRows, log_id: int, size: int, wanted: set[int]
) -> tuple[dict[int, bytes], int]:
    tree, changed = BlockTree(), 0
    roots = {0: merkle.EMPTY_ROOT}
    for first in range(0, size, BLOCK):
        last = min(first + BLOCK, size)
        leaves = list(rows.entered(first, last).values())
        changed += _write_run(connection, rows, log_id, SubtreeRun(0, first, leaves))
        for run in tree.add(leaves):
            changed += _write_run(connection, rows, log_id, run)
        for each in wanted | {size}:
            if first < each <= last:
                roots[each] = merkle.root(each, tree.read)
    left_over = text(
        "DELETE FROM log_node WHERE log_id = :log"
        " AND (idx < 0 OR level < 0 OR level > 62 OR idx >= (CAST(:size AS BIGINT) >> level))"
    )
    removed = connection.execute(left_over, {"log": log_id, "size": size}).rowcount
    return roots, changed + removed


def _write_run(connection: Connection, rows: LogRows, log_id: int, run: SubtreeRun) -> int:
    stored = rows.level(run.level, run.first, run.first + len(run.hashes))
    wrong = [idx for idx, found in enumerate(run.hashes, run.first) if stored.get(idx) != found]
    for idx in wrong:
        if idx in stored:
            is_it = (log_node.c.log_id == log_id) & (log_node.c.level == run.level) & (log_node.c.idx == idx)
            connection.execute(delete(log_node).where(is_it))
    if wrong:
        where = {"log_id": log_id, "level": run.level}
        written = [{**where, "idx": idx, "hash": run.hashes[idx - run.first]} for idx in wrong]
        connection.execute(insert(log_node), written)
    return len(wrong)
