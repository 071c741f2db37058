"""Compare what agents remember about files with what a session found in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import EarlierFinding, EarlierState
from esper_agents.domain.memory import NoteKind
from esper_agents.domain.task import is_about

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.finding import Finding
    from esper_agents.domain.memory import MemoryNote
    from esper_agents.domain.task import Task

_REVIEW = "static-review"
# As `lessons` writes a finding.
_FINDING = re.compile(r"(?P<text>\w+ (?P<rule>[A-Z]+\d+) [\w-]+ at [^\n]*?:\d+)(?::\d+)?: ")
_MOST = 20


def earlier_findings(
    notes: Iterable[MemoryNote], task: Task, findings: Iterable[Finding], evidence: Sequence[Evidence]
) -> tuple[EarlierFinding, ...]:
    """Return what became of the findings that notes hold about the files of a task, newest first, at most 20.

    Only notes that a session of this database wrote are used. A finding is fixed only if its rule ran on the whole file
    again: a review of a change reports what the change brings.

    Args:
        notes: The notes that agents of the session started with.
        task: The task.
        findings: Findings of the session.
        evidence: Evidence of the session.
    """
    now = {finding.claim.fingerprint for finding in findings}
    checked = dict(_checked(evidence))
    found: dict[str, EarlierFinding] = {}
    for note in sorted(notes, key=lambda each: each.written_at, reverse=True):
        said = _FINDING.match(note.text)
        is_usable = note.kind is NoteKind.ACTION and note.is_vouched_for and note.certificate and len(note.sources) == 1
        if said is None or not is_usable or not is_about(task.paths, note.sources[0].path):
            continue
        source = note.sources[0]
        digest = checked.get((said["rule"], source.path))
        if note.subject in now:
            state = EarlierState.FOUND_AGAIN
        elif digest is None:
            state = EarlierState.NOT_CHECKED
        else:
            state = EarlierState.NO_LONGER_REPORTED if digest == source.sha256 else EarlierState.FIXED
        earlier = EarlierFinding(note.subject, said["text"], source.path, note.certificate, state)
        found.setdefault(note.subject, earlier)
    return tuple(found.values())[:_MOST]


def _checked(evidence: Sequence[Evidence]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield each rule and file that a review of whole files covered, with the digest of the file."""
    for each in evidence:
        if each.tool == _REVIEW and each.outcome is CallOutcome.COMPLETED and not each.arguments.get("since"):
            for rule in each.output.get("rules", ()):
                for file in each.examined:
                    yield (str(rule), file.path), file.sha256
