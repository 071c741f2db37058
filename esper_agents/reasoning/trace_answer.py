"""Answer to a request that contains a stack trace or error message, before any other step."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Conclude, RiskAssessment, ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.status import QuestionType
from esper_agents.reasoning.target_choice import stated_arguments
from esper_agents.traces.families import classify_trace, find_message
from esper_agents.traces.parsing import parse_traces

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from esper_agents.domain.agent_action import Move, ToolReport
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Brief

_TOOL = "explain-trace"
_SCAFFOLD = "torch-scaffold"
_SIDE = 30_000
# Limits of the attempt to reproduce an error.
_MOST_RUNS, _MOST_SECONDS = 30, 15
_LONGEST_COMPARED = 200


@dataclass(frozen=True, slots=True)
class _RepeatedError:
    """Result of running the code at the innermost frame with synthetic inputs.

    Attributes:
        text: The result in one sentence.
        command: Command that repeats the run.
        is_reproduced: Whether the same error occurred.
    """

    text: str
    command: str
    is_reproduced: bool


def answer_first(
    play: Callable[[Brief], Generator[Move, Any, Conclude]], brief: Brief
) -> Generator[Move, Any, Conclude]:
    """Answer the error in a request if it is known; otherwise, and for a verdict on code, play the playbook.

    Args:
        play: Playbook of the agent.
        brief: Brief of the frame.
    """
    if _is_about_an_error(brief):
        reports: tuple[ToolReport, ...] = yield CallTools((ToolCall(_TOOL, {"text": _bounded(brief.task.request)}),))
        evidence = reports[0].evidence
        is_answered = evidence.outcome is CallOutcome.COMPLETED and bool(evidence.output["family"])
        if is_answered and not evidence.output["location"] and brief.request and brief.task.paths:
            # No line of the trace is of this project: the words of the request say which code it is about.
            conclusion = yield from play(brief)
            return replace(conclusion, summary=f"{conclusion.summary} About the error: {evidence.output['answer']}")
        if is_answered and not _asks_for_a_verdict(brief):
            repeated = yield from _repeated(brief, evidence.output)
            return _conclusion(evidence.output, repeated)
        if evidence.outcome is CallOutcome.COMPLETED and evidence.output["location"] and not is_answered:
            conclusion = yield from play(brief)
            where = f"The error is raised at {str(evidence.output['answer']).rstrip('.')}; its cause is not known."
            return replace(conclusion, summary=f"{where} {conclusion.summary}")
    return (yield from play(brief))


def _is_about_an_error(brief: Brief) -> bool:
    """Return whether the request contains a trace or a known error, and the agent may call the tool."""
    if brief.handoff is not None or brief.question or all(tool.name != _TOOL for tool in brief.tools):
        return False
    traces = parse_traces(_bounded(brief.task.request))
    if any(trace.frames or classify_trace(trace) is not None for trace in traces):
        return True
    return not traces and bool(find_message(_bounded(brief.task.request)))


def _asks_for_a_verdict(brief: Brief) -> bool:
    """Return whether words of the request ask for more than the cause of the error."""
    return brief.task.kind is not QuestionType.ADVICE and bool(brief.task.kind_because)


def _bounded(text: str) -> str:
    return text if len(text) <= 2 * _SIDE else f"{text[:_SIDE]}\n{text[-_SIDE:]}"


def _repeated(brief: Brief, explained: JsonObject) -> Generator[Move, Any, _RepeatedError | None]:
    """Run the code at the innermost frame with synthetic inputs, and return whether the error occurs."""
    target, shape = str(explained.get("target", "")), str(explained.get("shape", ""))
    if not target or all(tool.name != _SCAFFOLD for tool in brief.tools):
        return None
    limits = {"runs": _MOST_RUNS, "seconds": _MOST_SECONDS}
    stated = {**stated_arguments(brief, target), **({"shape": shape} if shape else {})}
    arguments = {"target": target, **limits, **stated}
    given = yield CallTools((ToolCall(_SCAFFOLD, arguments),))
    if isinstance(given, Refusal) or given[0].evidence.outcome is not CallOutcome.COMPLETED:
        return None
    evidence, wanted = given[0].evidence, str(explained["error"])
    runs = bool(evidence.output.get("runnable"))
    if stated and _is_same(str(evidence.output.get("first_error", "")), wanted, with_numbers=True):
        text = f"Reproduced: {target} fails with the same error {_as_stated(stated)}."
        return _RepeatedError(text, evidence.rerun, is_reproduced=True)
    raised = str(evidence.output.get("backward_error" if runs else "error") or "")
    if _is_same(raised, wanted, with_numbers=False):
        text = f"Reproduced: {target} fails with the same error when it runs with synthetic inputs."
        return _RepeatedError(text, evidence.rerun, is_reproduced=True)
    if not runs:
        return None
    text = f"Not reproduced: {target} runs with synthetic inputs; the error depends on yours or on the code around it."
    return _RepeatedError(text, evidence.rerun, is_reproduced=False)


def _as_stated(stated: Mapping[str, str]) -> str:
    """Return in words with which arguments a definition was run."""
    sizes = stated.get("shape", "").replace(",", ", ")
    given = [f"`{stated['make']}`" for _ in ("make",) if "make" in stated]
    given += [f"the call's `{stated['call']}`" for _ in ("call",) if "call" in stated]
    given += [f"an input of shape [{sizes}]"] if sizes else []
    return f"with {' and '.join(given)}" if len(stated) > (1 if sizes else 0) else f"for an input of shape [{sizes}]"


def _is_same(raised: str, wanted: str, *, with_numbers: bool) -> bool:
    """Return whether two exceptions have one type and one first line, apart from numbers and devices."""
    one, other = (_plain(each, with_numbers=with_numbers) for each in (raised, wanted))
    return bool(one) and bool(other) and (one.startswith(other) or other.startswith(one))


def _plain(error: str, *, with_numbers: bool) -> str:
    first = " ".join(error.split()).partition(" Hint:")[0].replace("torch.cuda.", "torch.")
    exception, _, message = first.partition(": ")
    text = f"{exception.rpartition('.')[2]}: {message}"[:_LONGEST_COMPARED]
    return text if with_numbers else re.sub(r"\[[\d, ]*\]|\d+", "0", text)


def _conclusion(explained: JsonObject, repeated: _RepeatedError | None) -> Conclude:
    is_certain, place = bool(explained["is_certain"]), str(explained["location"])
    run = repeated.text if repeated is not None else ""
    parts = (explained["answer"], explained["fix"], run, f"Reason: {explained['why']}.")
    summary = " ".join(str(part) for part in parts if part)
    gap = InformationGap(
        "the line of this project that failed",
        "no frame of the trace is a line of these files",
        "esper explain -- COMMAND",
    )
    steps = (f"{place}: {explained['fix']}" if place else str(explained["fix"]),)
    also = tuple(f"{each}: the same pattern" for each in explained["also"])
    caveat = "From the message and the code at the frames; the program was not run again."
    if repeated is not None:
        caveat = "Only the code at the failing line was run, with inputs made by the program; your program was not."
        steps = (*steps, *((f"confirm the change: {repeated.command}",) if repeated.is_reproduced else ()))
    return Conclude(
        summary=summary,
        gaps=() if place else (gap,),
        caveats=(caveat, *(f"Another possible cause: {each}" for each in explained["alternatives"])),
        next_steps=(*steps, *also) if is_certain else (*steps, *also, "confirm the cause before the change"),
        risks=RiskAssessment("Low", "Easy"),
    )
