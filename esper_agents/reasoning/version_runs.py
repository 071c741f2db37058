"""Runs of what a change edits, before and after it, and what they leave open."""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import VERSIONS, CallOutcome
from esper_agents.domain.request import ConstraintKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.agent_action import ToolReport
    from esper_agents.domain.frame import Brief

_MOST_GAPS = 2
# Words by which a request says, or asks whether, a change keeps the behaviour.
_KEEPS_BEHAVIOUR = re.compile(
    r"\b(?:refactor\w*|harmless|no[- ]?op|behavi\w+[- ]preserving|equivalent|cosmetic"
    r"|(?:really|still|exactly|all) the same|do(?:es)? the same|(?:the )?same (?:behavi\w+|results?|outputs?|numbers)"
    r"|no (?:functional|behavi\w+|semantic) changes?|(?:only|just) (?:renam|mov|reformat|tid|clean)\w*"
    r"|clean[- ]?ups?|cleaned up|tid(?:y|ied|ying)(?: up)?"
    r"|refaktor\w*|umbau\w*|umgebaut|harmlos\w*|aufger(?:ä|ae)umt|aufr(?:ä|ae)um\w*|nur (?:umbenannt|verschoben)"
    r"|(?:das|genau) ?(?:selbe|gleiche)|gleiche[sn]? (?:verhalten|ergebnisse?))\b",
    re.IGNORECASE,
)


def version_calls(brief: Brief) -> tuple[ToolCall, ...]:
    """Return the call that runs what the change of a task edits in both versions; empty if the task has no change.

    Args:
        brief: Brief of the task.
    """
    task = brief.task
    sources = [path for path in task.paths if path.endswith(".py")]
    is_restricted = brief.request is not None and brief.request.restricts(ConstraintKind.NO_RUN)
    if task.change is None or not sources or brief.question or is_restricted:
        return ()
    if VERSIONS not in {tool.name for tool in brief.tools}:
        return ()
    claims_same = _KEEPS_BEHAVIOUR.search(task.request) is not None
    return (ToolCall(VERSIONS, {"paths": sources, "since": task.change.since, "claims_same": claims_same}),)


def version_gaps(reports: Sequence[ToolReport]) -> Iterator[InformationGap]:
    """Yield what the runs leave open: edited definitions that were not run, with a command that helps."""
    for report in reports:
        evidence = report.evidence
        if evidence.tool != VERSIONS or evidence.outcome is not CallOutcome.COMPLETED:
            continue
        missing = [each for each in evidence.output.get("comparisons", ()) if each["outcome"] == "not compared"]
        for each in missing[:_MOST_GAPS]:
            target = str(each["target"])
            yield InformationGap(
                f"whether {target} does the same before and after the change: {each['problem']}",
                "inputs of your own, or a test that calls it, would show it",
                f"esper torch scaffold {quote(target)} --capture SCRIPT.py",
            )
