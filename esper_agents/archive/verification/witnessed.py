"""Checks that witnesses, whom the user demands, cosigned a checkpoint of the log with a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.archive.witnessing import logs_folder, published_checkpoints
from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.log.cosignature import cosignature_of
from esper_agents.certificates.log.note import includes, read_proof
from esper_agents.certificates.log.pins import contradiction
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import IntegrityError
from esper_agents.paths import PUBLISHED, PUBLISHED_LOGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from esper_agents.archive.project_place import ProjectPlace
    from esper_agents.archive.witnessing import PublishedCheckpoint
    from esper_agents.certificates.log.cosignature import Cosignature, Witness
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store

WITNESS = "witness"
_MISSING = "`esper log publish` asks for a cosignature, and `esper log witness` adds it"


@dataclass(frozen=True, slots=True)
class WitnessDemand:
    """Witnesses that must have cosigned a checkpoint with each certificate, and the published checkpoints.

    Attributes:
        witnesses: The witnesses; none if nothing is demanded.
        checkpoints: Published checkpoints of all logs of the project.
    """

    witnesses: tuple[Witness, ...] = ()
    checkpoints: tuple[PublishedCheckpoint, ...] = ()

    def in_log(self, store: Store, project_key: str, idx: int | None) -> tuple[Check, ...]:
        """Return the checks of a certificate of the local log; see `witnessed_in_log`."""
        with store.reading() as connection:
            log_id = transparency_log.log_of(connection, project_key)
            return tuple(
                witnessed_in_log(connection, log_id, idx, self.checkpoints, witness) for witness in self.witnesses
            )

    def by_proof(self, envelope: bytes, proof: bytes | None) -> tuple[Check, ...]:
        """Return the checks of a certificate of another log; see `witnessed_by_proof`."""
        return tuple(
            forked(proof, self.checkpoints, witness) or witnessed_by_proof(envelope, proof, self.checkpoints, witness)
            for witness in self.witnesses
        )


NO_DEMAND = WitnessDemand()


def witness_demand(witnesses: Sequence[Witness], project: Project, place: ProjectPlace | None) -> WitnessDemand:
    """Return a demand with the published checkpoints of a project.

    Args:
        witnesses: Witnesses that must have cosigned.
        project: The project.
        place: Its archive; None if it has no database.
    """
    if not witnesses:
        return NO_DEMAND
    folders = dict.fromkeys((Path(project.root, PUBLISHED, PUBLISHED_LOGS), *([logs_folder(place)] if place else ())))
    found = tuple(each for folder in folders for each in published_checkpoints(folder))
    return WitnessDemand(tuple(dict.fromkeys(witnesses)), found)


def witnessed_in_log(
    connection: Connection, log_id: int, idx: int | None, found: Sequence[PublishedCheckpoint], witness: Witness
) -> Check:
    """Check a log of this machine against the published checkpoints that a witness cosigned.

    Args:
        connection: The archive.
        log_id: Log of the certificate.
        idx: Index of its entry; None if the log has none.
        found: Published checkpoints.
        witness: Witness that must have cosigned one with the entry.
    """
    origin = transparency_log.origin(connection, log_id)
    covered: tuple[int, Cosignature] | None = None
    for each in found:
        if each.checkpoint.origin != origin:
            continue
        try:
            cosignature = cosignature_of(each.note, witness)
        except IntegrityError as error:
            return Check(WITNESS, CheckOutcome.FAILS, f"{each.path.name}: {error.problem}")
        if cosignature is None:
            continue
        fault = contradiction(connection, log_id, each.checkpoint)
        if fault is not None:
            detail = (
                f"{witness.name} cosigned {each.checkpoint.size} entries of this log at {cosignature.when}, and the log"
                f" contradicts them: {fault.detail.replace('pinned', 'cosigned')}"
            )
            return Check(WITNESS, CheckOutcome.FAILS, detail)
        if covered is None or each.checkpoint.size > covered[0]:
            covered = each.checkpoint.size, cosignature
    if covered is None:
        return _unknown(f"{witness.name} cosigned no published checkpoint of log {origin}; {_MISSING}")
    size, cosignature = covered
    if idx is None or idx >= size:
        at = "its entry" if idx is None else f"entry {idx}"
        return _unknown(f"{at} is newer than the {size} entries that {witness.name} cosigned; {_MISSING}")
    return _holds(witness, size, cosignature)


def witnessed_by_proof(
    envelope: bytes, proof: bytes | None, found: Iterable[PublishedCheckpoint], witness: Witness
) -> Check:
    """Check that the checkpoint of an inclusion proof is cosigned by a witness.

    Args:
        envelope: Bytes of the envelope, the leaf of the log.
        proof: Bytes of the proof; None if there is none.
        found: Published checkpoints, of which one may be the same with a cosignature.
        witness: Witness that must have cosigned its checkpoint.
    """
    if proof is None:
        return _unknown("inclusion proof not found next to the certificate")
    try:
        parsed = read_proof(proof)
        same = [each.note for each in found if each.note.text == parsed.note.text]
        made = [cosignature_of(note, witness) for note in (parsed.note, *same)]
    except IntegrityError as error:
        return Check(WITNESS, CheckOutcome.FAILS, error.problem)
    cosignature = next((each for each in made if each is not None), None)
    if not includes(parsed, envelope):
        return Check(WITNESS, CheckOutcome.FAILS, "inclusion proof does not match the checkpoint")
    if cosignature is None:
        detail = f"the checkpoint of its inclusion proof is not cosigned by {witness.name}"
        return _unknown(f"{detail}; the owner of the log adds the cosignature with `esper log publish`")
    return _holds(witness, parsed.checkpoint.size, cosignature)


def forked(proof: bytes | None, found: Iterable[PublishedCheckpoint], witness: Witness) -> Check | None:
    """Return the failed check if a witness cosigned another tree of the size that a proof is for; else None.

    Args:
        proof: Bytes of an inclusion proof whose checkpoint a trusted key signed.
        found: Published checkpoints.
        witness: The witness.
    """
    try:
        head = read_proof(proof or b"").checkpoint
    except IntegrityError:
        return None
    for each in found:
        other = each.checkpoint
        if (other.origin, other.size) != (head.origin, head.size) or other.root == head.root:
            continue
        try:
            is_cosigned = cosignature_of(each.note, witness) is not None
        except IntegrityError:
            continue
        if is_cosigned:
            detail = f"{witness.name} cosigned other entries of log {head.origin} than its inclusion proof is for"
            return Check(WITNESS, CheckOutcome.FAILS, f"{detail}: the log was rewritten")
    return None


def _holds(witness: Witness, size: int, cosignature: Cosignature) -> Check:
    detail = f"{witness.name} cosigned {number_of(size, 'entry', 'entries')} of the log at {cosignature.when}"
    return Check(WITNESS, CheckOutcome.HOLDS, detail)


def _unknown(detail: str) -> Check:
    return Check(WITNESS, CheckOutcome.CANNOT_DECIDE, detail)
