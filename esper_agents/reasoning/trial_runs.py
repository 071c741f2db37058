"""Trial runs of the definitions that a request names, with arguments that the program finds."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.status import QuestionType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.agent_action import ToolReport
    from esper_agents.domain.frame import Brief

_SCAFFOLD = "torch-scaffold"
_MOST, _LONGEST = 2, 200


def trial_calls(brief: Brief, targets: ToolReport | None) -> tuple[ToolCall, ...]:
    """Return the calls that try to run what the request names, where it asks whether that is right.

    Args:
        brief: Brief of the task.
        targets: Report of `torch-targets`; None if it was not called.
    """
    is_asked = brief.task.kind is QuestionType.APPROVAL and not brief.task.change and not brief.question
    if not is_asked or brief.request is None or targets is None or _SCAFFOLD not in {tool.name for tool in brief.tools}:
        return ()
    output = targets.evidence.output
    known = {each["target"] for each in (*output["runnable"], *output["missing"])}
    named = [f"{symbol.path}:{symbol.name}" for symbol in brief.request.symbols]
    # A method is run by its class.
    wanted = [each for each in named if each in known or each.rpartition(".")[0] in known]
    return tuple(ToolCall(_SCAFFOLD, {"target": each}) for each in wanted[:_MOST])


def trial_gaps(reports: Sequence[ToolReport]) -> Iterator[InformationGap]:
    """Yield what trial runs leave open: definitions for which no arguments were found."""
    for report in reports:
        evidence = report.evidence
        is_done = evidence.tool == _SCAFFOLD and evidence.outcome is CallOutcome.COMPLETED
        if not is_done or evidence.output.get("runnable"):
            continue
        target = str(evidence.arguments["target"])
        reason = str(evidence.output.get("error") or evidence.summary)[:_LONGEST]
        yield InformationGap(
            f"whether {target} runs: no arguments were found for it ({reason})",
            "reading does not show errors that depend on shapes and values",
            f"esper torch scaffold {quote(target)}",
        )
