"""Decide which open follow-ups a certificate shows to be done."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.certificates.statement import parse
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import UNCONFIRMED, Category
from esper_agents.domain.task import is_about
from esper_agents.memory import notes

if TYPE_CHECKING:
    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.change import TaskChange
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.memory import MemoryNote
    from esper_agents.storage.store import Transaction

_REVIEW = "static-review"


def close_done(transaction: Transaction, project_key: str, issued: Certificate) -> None:
    """Mark the open follow-ups as done whose finding a new certificate checked again and did not find."""

    @cache
    def archived(certificate_id: str) -> Certificate | None:
        data = archive.intact_statement(transaction.connection, certificate_id)
        return parse(data) if data is not None else None

    def was_checked(note: MemoryNote) -> bool:
        before = archived(note.certificate) if note.is_vouched_for and note.certificate else None
        return before is not None and checks_again(issued, before, note.subject)

    notes.close_actions(
        transaction,
        project_key,
        agents={definition.agent for definition in issued.definitions},
        examined={each.path for each in issued.examined},
        standing={finding.claim.fingerprint for finding in issued.findings},
        was_checked=was_checked,
    )


def checks_again(issued: Certificate, before: Certificate, fingerprint: str) -> bool:
    """Return whether a certificate checked the newest content of a file for a finding of an earlier certificate.

    A review counts if it ran the finding's rule on the file; a file that was read as context of others does not. Any
    other call counts if it repeats one that found it. What an unconfirmed finding of a model says, no call checks.

    A review of a change reports only what the change introduces, so that it counts for findings of that change only. A
    finding in a commit that is not checked out is not in the work tree: only a review of the same change counts.

    Args:
        issued: The later certificate.
        before: The earlier certificate.
        fingerprint: Fingerprint of the finding.
    """
    finding = next((each for each in before.findings if each.claim.fingerprint == fingerprint), None)
    if finding is None or finding.standing in UNCONFIRMED:
        return False
    change, path = before.task.change, finding.claim.location.path
    is_same_change = _is_same(issued.task.change, change)
    if not is_same_change and (_is_elsewhere(issued.task.change) or _is_elsewhere(change)):
        return False
    found_by = [each for each in before.evidence if each.id in finding.evidence]
    newest = {file.path: file.sha256 for each in issued.evidence for file in each.examined}
    return any(
        _checks(each, finding, found_by, is_same_change=is_same_change)
        for each in issued.evidence
        if each.outcome is CallOutcome.COMPLETED
        and any(file.path == path and file.sha256 == newest[path] for file in each.examined)
    )


def _checks(call: Evidence, finding: Finding, found_by: list[Evidence], *, is_same_change: bool) -> bool:
    """Return whether a call that read the file of a finding checked it for that finding."""
    if call.tool != _REVIEW:
        return any(each.tool == call.tool and each.arguments == call.arguments for each in found_by)
    if call.arguments.get("since"):
        if not is_same_change:
            return False
    elif finding.claim.category is Category.COMPANION and any(each.arguments.get("since") for each in found_by):
        return False
    named = [str(each) for each in call.arguments.get("paths") or ()]
    is_named = bool(named) and is_about(named, finding.claim.location.path)
    return is_named and finding.claim.rule in call.output.get("rules", ())


def _is_elsewhere(change: TaskChange | None) -> bool:
    return change is not None and not change.is_checked_out


def _is_same(one: TaskChange | None, other: TaskChange | None) -> bool:
    return one is not None and other is not None and (one.asked, one.base) == (other.asked, other.base)
