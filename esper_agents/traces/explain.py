"""Explanation of a stack trace or error message: cause, line, fix, and the next command."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of
from esper_agents.errors import UsageError
from esper_agents.traces import (  # noqa: F401 - register their facts
    argument_facts,
    call_facts,
    contract_facts,
    creation_facts,
    dtype_facts,
    graph_facts,
    memory_facts,
    name_facts,
    object_facts,
    operand_facts,
    origin_facts,
    program_facts,
    run_facts,
    sample_facts,
    shape_facts,
    text_facts,
    value_facts,
    way_facts,
)
from esper_agents.traces.facts import FACTS, FactContext
from esper_agents.traces.families import (
    ENDED_PROCESS,
    classify_message,
    classify_trace,
    find_message,
    primary_trace,
    raised_in_worker,
)
from esper_agents.traces.locate import LocatedTrace, ProjectSources, locate_trace
from esper_agents.traces.parsing import parse_traces
from esper_agents.traces.scopes import enclosing_class, enclosing_function, parameters_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from esper_agents.domain.evidence import SourceFile
    from esper_agents.domain.finding import Location
    from esper_agents.domain.stack_trace import StackTrace
    from esper_agents.traces.facts import TraceFact
    from esper_agents.traces.families import Classification, ErrorCause
    from esper_agents.traces.locate import LocatedFrame

_SLOT = re.compile(r"\{(\w+)\}")
_SENTENCE_END = re.compile(r"(?<=[.?;]) ")
_NO_TEXT = re.compile(r":? `\{text\}`| \(`\{text\}`\)")
_NO_LINE = "the failing line"
_LONGEST_VALUE = 160
_LONGEST_PART = 400
_FORWARD = "forward"
_MOST_OTHERS = 3
_NO_TRACE = "paste the whole output of the failed command, from 'Traceback' on"


@dataclass(frozen=True, slots=True)
class TraceExplanation:
    """Explanation of a stack trace.

    Attributes:
        trace: The exception that is explained.
        family: Name of the error family; empty if none matches.
        cause: Name of the cause; empty if message and code leave more than one.
        answer: The cause, with the line.
        fix: Change that removes it; empty if the cause is not known.
        why: Reason for the error.
        location: Line of the project that the answer is about; None if no frame is in the project.
        is_certain: Whether message or code decided for the cause.
        alternatives: Other causes, each with how to find out.
        frames: The frames in words: where they are in the project, and how many are elsewhere.
        also: Other lines of the project with the same pattern.
        findings: Findings of the lint rules at that line.
        sources: Pages about the error.
        next: Command that helps to confirm the cause or to find others.
        examined: Files of the project that were read.
        others: Number of other traces in the text.
        other_errors: Their exceptions, at most three.
        target: Module or function at the innermost frame that a run with synthetic inputs may reproduce the error with,
            `FILE.py:NAME`; empty if there is none.
        shape: Shape of the input that the message names, as `8,3,32,32`; empty if it names none.
    """

    trace: StackTrace
    family: str
    cause: str
    answer: str
    fix: str
    why: str
    location: Location | None
    is_certain: bool
    alternatives: tuple[str, ...]
    frames: tuple[str, ...]
    also: tuple[Location, ...]
    findings: tuple[str, ...]
    sources: tuple[str, ...]
    next: str
    examined: tuple[SourceFile, ...]
    others: int
    other_errors: tuple[str, ...] = ()
    target: str = ""
    shape: str = ""


@dataclass(frozen=True, slots=True)
class _FittingCause:
    """A cause whose conditions hold, with the values for its texts."""

    cause: ErrorCause
    values: Mapping[str, str]
    location: Location | None
    also: tuple[Location, ...]
    is_decided: bool


def explain_text(text: str, root: Path | None = None) -> TraceExplanation:
    """Return the explanation of the first relevant stack trace or error message of a text.

    Args:
        text: Log, trace or request; secrets in it are the caller's concern.
        root: Project directory whose lines the frames are mapped to; None for no project.

    Raises:
        UsageError: The text contains neither a stack trace nor an error message.
    """
    traces = parse_traces(text) or find_message(text)
    if not traces:
        problem = "no stack trace or error message in the text" if text.strip() else "the text is empty"
        raise UsageError(problem, remedy=_NO_TRACE)
    trace = primary_trace(traces)
    sources = ProjectSources(root) if root is not None else None
    located = locate_trace(trace, sources) if sources else LocatedTrace((), 0, ())
    forward = tuple(
        frame
        for other in traces
        if sources and other.message.startswith("Error detected in")
        for frame in locate_trace(other, sources).frames
    )
    found = classify_trace(trace) or _message_of_ended_process(trace, text)
    if found is None:
        unknown = _unknown(trace, located, sources, len(traces) - 1)
        return _with_findings(replace(unknown, other_errors=_other_errors(traces, trace)), root)
    context = FactContext(found.groups, found.trace, located.frames, sources, forward, text)
    fitting = list(_fitting(found, context, text))
    explanation = _explanation(found, fitting, located, sources, len(traces) - 1)
    explanation = replace(explanation, other_errors=_other_errors(traces, trace))
    if sources and found.family.is_reproduced:
        shape = ",".join(re.findall(r"\d+", found.groups.get(found.family.input_shape, "")))
        target = _target(explanation.location, located, sources)
        explanation = replace(explanation, target=target, shape=shape if target else "")
    if forward and fitting[0].location is None:
        explanation = _at_forward(explanation, forward)
    return _with_findings(explanation, root)


def _other_errors(traces: tuple[StackTrace, ...], trace: StackTrace) -> tuple[str, ...]:
    others = (each.headline[:_LONGEST_VALUE] for each in traces if each is not trace and each.exception)
    return tuple(dict.fromkeys(others))[:_MOST_OTHERS]


def _message_of_ended_process(trace: StackTrace, text: str) -> Classification | None:
    """Return the family of what a process printed before it ended, if the trace says only that it ended."""
    if trace.type_name not in ENDED_PROCESS:
        return None
    printed = next(iter(find_message(text)), None)
    return classify_message(printed) if printed is not None else None


def _with_findings(explanation: TraceExplanation, root: Path | None) -> TraceExplanation:
    """Return an explanation with the findings of the lint rules at its line."""
    place = explanation.location
    if root is None or place is None:
        return explanation
    from esper_agents.review.engine import review

    claims = review(root, [root / place.path]).claims
    found = [
        claim
        for claim in claims
        if claim.location.line <= place.line <= max(claim.location.line, claim.location.end_line)
    ]
    return replace(explanation, findings=tuple(f"{each.rule} {each.location}: {each.message}" for each in found))


def _at_forward(explanation: TraceExplanation, forward: tuple[LocatedFrame, ...]) -> TraceExplanation:
    """Return an explanation at the line of the forward pass that anomaly mode printed."""
    place = forward[0].location
    answer = f"{place}: {explanation.answer.removeprefix(f'{explanation.location}: ')}"
    return replace(explanation, location=place, answer=answer, next=_next_command(place))


def _fitting(found: Classification, context: FactContext, text: str) -> Iterator[_FittingCause]:
    """Yield the causes whose conditions hold, in the order of their family."""
    message = f"{found.trace.exception}: {found.trace.message}"
    for cause in found.family.causes:
        values: dict[str, str] = dict(found.groups)
        location: Location | None = None
        also: tuple[Location, ...] = ()
        if cause.message:
            match = re.search(cause.message, message, re.DOTALL)
            if match is None:
                continue
            values |= {name: value for name, value in match.groupdict().items() if value is not None}
        if cause.context:
            match = re.search(cause.context, text)
            if match is None:
                continue
            values |= {name: value for name, value in match.groupdict().items() if value is not None}
        facts: list[TraceFact] = []
        for name in cause.facts:
            fact = FACTS[name](context)
            if fact is None:
                break
            facts.append(fact)
            values |= fact.values
            location = location or fact.location
            also = also or fact.also
        if len(facts) == len(cause.facts):
            yield _FittingCause(cause, values, location, also, not cause.is_default)


def _explanation(
    found: Classification,
    fitting: list[_FittingCause],
    located: LocatedTrace,
    sources: ProjectSources | None,
    others: int,
) -> TraceExplanation:
    decided = [each for each in fitting if each.is_decided]
    first = (decided or fitting)[0]
    location = first.location or (located.frames[0].location if located.frames else None)
    standard = _standard_values(located, location)
    values = {**first.values, **standard}
    is_open = not decided or first.cause.is_candidate
    rest = [each for each in fitting if each is not first and not each.is_decided] if is_open else []
    texts = (_filled(f"{each.cause.answer} {each.cause.tell}".strip(), {**each.values, **standard}) for each in rest)
    alternatives = tuple(text for text in texts if text)
    template = f"{first.cause.answer} {first.cause.tell}" if rest else first.cause.answer
    answer = _filled(template, values) or f"{found.family.title}."
    if location is not None and str(location) not in answer:
        missing = located.missing if first.location is None else None
        calls = f" calls {missing.path}:{missing.line}, which is not in this project as printed. " if missing else ": "
        answer = f"{location}{calls}{answer}"
    return TraceExplanation(
        trace=found.trace,
        family=found.family.name,
        cause=first.cause.name if decided or not rest else "",
        answer=answer,
        fix=_filled(first.cause.fix, values),
        why=_filled(found.family.why, values),
        location=location,
        is_certain=(not is_open or not rest) and not first.cause.is_candidate,
        alternatives=alternatives,
        frames=_frame_lines(located),
        also=first.also,
        findings=(),
        sources=found.family.sources,
        next=_next_command(location),
        examined=_examined(sources),
        others=others,
    )


def _target(place: Location | None, located: LocatedTrace, sources: ProjectSources) -> str:
    """Return the module or function at a line; empty if it cannot be imported without running it.

    A script without `__main__` guard runs on import.
    """
    if place is None:
        return ""
    path, line = place.path, place.line
    tree = sources.tree(path)
    function, owner = enclosing_function(tree, line), enclosing_class(tree, line)
    is_script = any(frame.frame.function == "<module>" and frame.location.path == path for frame in located.frames)
    if tree is None or function is None or (is_script and "__main__" not in (sources.text(path) or "")):
        return ""
    if owner is not None and owner in tree.body and function in owner.body:
        is_module = any("Module" in ast.unparse(base) for base in owner.bases)
        return f"{path}:{owner.name}" if is_module and function.name == _FORWARD else ""
    return f"{path}:{function.name}" if function in tree.body and parameters_of(function) else ""


def _unknown(trace: StackTrace, located: LocatedTrace, sources: ProjectSources | None, others: int) -> TraceExplanation:
    trace = raised_in_worker(trace)
    location = located.frames[0].location if located.frames else None
    headline = trace.headline or "the trace ends before its exception"
    if location is not None:
        text = located.frames[0].frame.text
        answer = f"{location}: {headline}" + (f", raised by `{text}`" if text else "")
    else:
        answer = headline
    return TraceExplanation(
        trace=trace,
        family="",
        cause="",
        answer=answer,
        fix="",
        why="no error family matches this message, so its cause is not known",
        location=location,
        is_certain=False,
        alternatives=(),
        frames=_frame_lines(located),
        also=(),
        findings=(),
        sources=(),
        next=_next_command(location),
        examined=_examined(sources),
        others=others,
    )


def _standard_values(located: LocatedTrace, location: Location | None) -> dict[str, str]:
    frame = located.missing or (located.frames[0].frame if located.frames else None)
    is_there = located.missing is None or (bool(located.frames) and location != located.frames[0].location)
    where = str(location) if location is not None and is_there else _NO_LINE
    values = {"where": where, "text": frame.text if frame else ""}
    values["crash"] = str(located.frames[0].location) if located.frames else where
    if (caller := _caller(located)) is not None:
        values["caller"] = f"{caller.location} (`{caller.frame.text}`)" if caller.frame.text else str(caller.location)
    return values


def _caller(located: LocatedTrace) -> LocatedFrame | None:
    """Return the frame that calls the model, if the error is in a `forward` method."""
    if not located.frames or located.frames[0].frame.function.rpartition(".")[2] != _FORWARD:
        return None
    outer = (frame for frame in located.frames if frame.frame.function.rpartition(".")[2] != _FORWARD)
    return next(outer, None)


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Return a text with the parts of the message and the code; they are plain text, never templates.

    A sentence with a part that the message does not contain is dropped.
    """
    if not values.get("text"):
        template = _NO_TEXT.sub("", template)
    sentences = [
        sentence
        for sentence in _SENTENCE_END.split(template)
        if all(name in values for name in _SLOT.findall(sentence))
    ]

    def value(match: re.Match[str]) -> str:
        text = " ".join(values[match[1]].split())
        return text if len(text) <= _LONGEST_PART else f"{text[:_LONGEST_PART]}..."

    text = " ".join(_SLOT.sub(value, " ".join(sentences)).split())
    is_bare = text.startswith(_NO_LINE)
    text = text.removeprefix(f"{_NO_LINE}: ")
    return text[:1].upper() + text[1:] if is_bare else text


def _frame_lines(located: LocatedTrace) -> tuple[str, ...]:
    lines = []
    for each in located.frames[:3]:
        printed = f"{each.frame.path}:{each.frame.line}"
        state = "the text moved" if each.moved else "same text" if each.is_verified else "text not printed"
        lines.append(f"{printed} is {each.location} of this project ({state})")
    if len(located.frames) > 3:  # noqa: PLR2004 - as many as are listed
        lines.append(f"{number_of(len(located.frames) - 3, 'more frame')} of this project")
    if located.unlocated:
        named = ", ".join(f"{frame.path}:{frame.line}" for frame in located.unlocated[:3])
        hint = "" if located.frames else "; `--project PATH` names the project of the trace"
        lines.append(f"{number_of(len(located.unlocated), 'frame')} not found in this project: {named}{hint}")
    if located.installed:
        lines.append(f"{number_of(located.installed, 'frame')} inside installed packages omitted")
    return tuple(lines)


def _next_command(location: Location | None) -> str:
    return f"esper review {quote(location.path)}" if location else ""


def _examined(sources: ProjectSources | None) -> tuple[SourceFile, ...]:
    return tuple(sources.examined[path] for path in sorted(sources.examined)) if sources else ()
