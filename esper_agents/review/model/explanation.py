"""Values and events at one line in plain words, as the model sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.model.events import EventKind, GradMode, LoopKind, ModelEvent
from esper_agents.review.model.heap import MODE, Mode
from esper_agents.review.model.knowledge import ResultKind
from esper_agents.review.model.program import close_program, program_of
from esper_agents.review.model.values import Constant, Data, FunctionValue, Library, Ref, Union, Value

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.events import Frame
    from esper_agents.review.model.interpreter import Interpreter
    from esper_agents.review.model.program import EntryRun

_LOOPS = {
    LoopKind.DATA: "data",
    LoopKind.LAYERS: "layers",
    LoopKind.RANGE: "numbers",
    LoopKind.WHILE: "rounds",
    LoopKind.ITEMS: "items",
}
_GRAD = {GradMode.ON: "gradients on", GradMode.OFF: "gradients off", GradMode.UNKNOWN: "gradients unknown"}
_SILENT = frozenset({EventKind.PART, EventKind.LOSS, EventKind.PARAMETER})
_MOST = 12


@dataclass(frozen=True, slots=True)
class LineFacts:
    """What the model knows about a line.

    Attributes:
        values: Values that the line binds, in words.
        events: Events at the line, in words.
        note: Why there is nothing, or what limits the answer; empty if nothing does.
    """

    values: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    note: str = ""


class LineWatch:
    """Values that a line binds while the model runs."""

    def __init__(self, path: str, line: int) -> None:
        self.path = path
        self.line = line
        self.values: dict[str, None] = {}

    def see(self, run: Interpreter, frame: Frame, name: str, value: Value) -> None:
        """Note a value that is bound at the line."""
        if name[0] != "#":
            self.values[f"{name}: {describe(run, value)} (in {frame.code.qualname})"] = None


def line_facts(index: ProjectIndex, path: str, line: int) -> LineFacts:
    """Return what the model knows about a line; the index is of no use for further questions."""
    watch = LineWatch(path, line)
    program = program_of(index, watch)
    found: dict[str, None] = {}
    for entry in program.runs:
        for event in entry.events:
            if event.kind not in _SILENT and event.path == path and event.at.line <= line <= event.at.end_line:
                found[_event_text(entry, event)] = None
    note = ""
    if program.cut:
        note = f"limit of instructions reached in {', '.join(program.cut[:3])}: later events there are missing"
    elif not found and not watch.values:
        note = "the model follows no training or evaluation through this line"
    close_program(index)
    return LineFacts(tuple(watch.values)[:_MOST], tuple(found)[:_MOST], note)


def describe(run: Interpreter, value: Value) -> str:
    """Return a value in plain words."""
    if isinstance(value, Ref):
        return _object_text(run, value)
    if isinstance(value, Constant):
        return f"the constant {value.value!r}"
    if isinstance(value, FunctionValue):
        return f"the function {value.code.qualname}"
    if isinstance(value, Library):
        return value.path
    if isinstance(value, Union):
        return " or ".join(describe(run, each) for each in value.values)
    data = run.data_of(value)
    return _data_text(run, data)


def _data_text(run: Interpreter, data: Data) -> str:
    kind = "data" if data.kind is ResultKind.UNKNOWN else data.kind.value
    if not data.graph:
        return f"{kind} without a graph" if data.kind is ResultKind.TENSOR else kind
    certain = "" if data.graph_certain else " on some paths"
    places = [event for event in run.events if data.graph >> event.number & 1 and event.text]
    origin = ", ".join(dict.fromkeys(f"{event.text!r} at line {event.at.line}" for event in places[:3]))
    return f"{kind} with a graph{certain}" + (f" through {origin}" if origin else "")


def _object_text(run: Interpreter, ref: Ref) -> str:
    held = run.heap[ref]
    if held.container:
        data = run.data_of(ref)
        return f"{held.container}" + (f" of {_data_text(run, data)}" if data.graph else "")
    name = held.cls.name if held.cls is not None else held.library or held.path or "object"
    if held.kind is ResultKind.MODULE or ResultKind.MODULE in held.evidence:
        modes = sorted({setting.mode.value for setting in held.fields.get(MODE, ())})
        return f"module {name}, mode {' or '.join(modes) or Mode.UNKNOWN.value}"
    if held.kind is ResultKind.UNKNOWN and held.cls is None:
        data = Data(ResultKind.UNKNOWN, held.sources, held.graph)
        return f"unknown {name}" + (f", {_data_text(run, data)}" if held.graph else "")
    return f"{held.kind.value} {name}" if held.kind is not ResultKind.UNKNOWN else f"instance of {name}"


def _event_text(entry: EntryRun, event: ModelEvent) -> str:
    words = [event.kind.value + (f" {event.text!r}" if event.text else "")]
    if event.kind is EventKind.FORWARD:
        words.append(f"mode {' or '.join(sorted({setting.mode.value for setting in event.modes}))}")
        words += [] if event.acts is None else ["acts by mode" if event.acts else "does not act by mode"]
    if event.kind is EventKind.MODE:
        words.append(f"to {event.name}")
    if event.kind in {EventKind.STORE, EventKind.BACKWARD, EventKind.FETCH}:
        words.append("with a graph" if event.graph else "without a graph")
    words.append(_GRAD[event.grad])
    loops = ", ".join(f"{_LOOPS[loop.kind]} at line {loop.code.at.line}" for loop, _ in event.loops)
    words += [f"in loops over {loops}"] if loops else []
    words.append(f"run from {entry.name}")
    return "; ".join(words)
