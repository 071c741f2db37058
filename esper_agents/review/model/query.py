"""Questions that rules ask of the semantic model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from esper_agents.review.model.events import EventKind, Frame, GradMode, LoopKind, LoopRun, ModelEvent
from esper_agents.review.model.heap import BOUNDED, Mode
from esper_agents.review.model.knowledge import ResultKind
from esper_agents.review.model.modules import parts_of
from esper_agents.review.model.program import program_of
from esper_agents.review.model.values import Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.heap import HeapObject
    from esper_agents.review.model.ir import SourcePosition
    from esper_agents.review.model.program import EntryRun
    from esper_agents.review.rule import RuleMatch

_TURNS = frozenset({LoopKind.DATA, LoopKind.RANGE, LoopKind.WHILE})
_BACKWARD = frozenset({EventKind.BACKWARD, EventKind.GRADIENT})
_MADE = frozenset({EventKind.FORWARD, EventKind.CALL, EventKind.PART})
_STEPS = frozenset({EventKind.STEP, EventKind.BACKWARD})


@dataclass(frozen=True, slots=True)
class ModelMatch:
    """A match that the model found.

    Attributes:
        path: The file.
        match: The match.
        regions: Files with their first and last lines where another match of the same rule reports the same cause.
    """

    path: str
    match: RuleMatch
    regions: tuple[tuple[str, int, int], ...]


class Run:
    """Questions about one run of an entry point."""

    def __init__(self, entry: EntryRun) -> None:
        self.entry = entry
        self.events = entry.events

    def of_kind(self, *kinds: EventKind) -> Iterator[ModelEvent]:
        """Yield the events of some kinds, in order."""
        return (event for event in self.events if event.kind in kinds)

    @cached_property
    def forwards(self) -> list[ModelEvent]:
        """Runs of models by code that is no part of a model."""
        return [event for event in self.of_kind(EventKind.FORWARD) if not event.depth and self.is_model(event)]

    @cached_property
    def backwards(self) -> list[ModelEvent]:
        """Values sent backward, and gradients asked for."""
        return list(self.of_kind(*_BACKWARD))

    @cached_property
    def trained(self) -> int:
        """Events through which values sent backward hold their graphs, as a bit set."""
        return self.expanded(self._union(event.graph for event in self.backwards))

    @cached_property
    def used_backward(self) -> int:
        """Events that values sent backward were computed from, with a graph or without, as a bit set."""
        return self._union(event.sources for event in self.backwards)

    @staticmethod
    def _union(sets: Iterable[int]) -> int:
        result = 0
        for each in sets:
            result |= each
        return result

    def expanded(self, graph: int) -> int:
        """Return a graph with the graphs of the arguments of calls in it whose code is unknown."""
        seen, edge = graph, graph
        while edge:
            number = edge.bit_length() - 1
            edge &= ~(1 << number)
            event = self.events[number]
            if event.kind in _MADE:
                edge |= event.graph & ~seen
                seen |= event.graph
        return seen

    def proven(self, graph: int) -> int:
        """Return the events of a graph sent backward that surely are in it, with the arguments of unknown calls.

        That a product goes backward proves the graph of one factor: of a model, if one is there, rather than of the
        result of an unknown call.
        """
        found, edge = 0, graph
        while edge:
            events = [event for event in self.events if edge & event.bit]
            ranks = [self._rank(event) for event in events]
            certain = self._union(each.bit for each, rank in zip(events, ranks, strict=True) if rank == max(ranks))
            found |= certain
            edge = self._union(event.graph for event in events if certain & event.bit and event.kind in _MADE) & ~found
        return found

    def _rank(self, event: ModelEvent) -> int:
        """Return how likely an event records a graph: a trained model most, then what runs, then what is unknown."""
        is_model = event.kind is EventKind.FORWARD and event.name != "frozen" and self.is_model(event)
        if is_model or event.kind is EventKind.PARAMETER:
            return 2
        return int(bool(self.expanded(event.bit) & self._forward_bits))

    @cached_property
    def _forward_bits(self) -> int:
        return self._union(event.bit for event in self.of_kind(EventKind.FORWARD))

    def object(self, event: ModelEvent) -> HeapObject | None:
        """Return the object that an event is about."""
        return self.entry.object(event)

    def is_model(self, event: ModelEvent) -> bool:
        """Return whether what runs is a model by its class or by how it is used elsewhere, not by its name."""
        held = self.object(event)
        if held is None:
            return False
        if held.facts is not None and held.facts.has_parameters is False:
            return False
        return held.kind is ResultKind.MODULE or ResultKind.MODULE in held.evidence

    def is_sent_backward(self, event: ModelEvent) -> bool:
        """Return whether the result of an event is a part of something that is sent backward, with its graph."""
        return bool(self.trained & event.bit)

    def flows_backward(self, event: ModelEvent) -> bool:
        """Return whether the result of an event is used, with its graph or without, in what is sent backward."""
        return bool(self.used_backward & event.bit)

    @staticmethod
    def turns(event: ModelEvent) -> Iterator[tuple[LoopRun, int]]:
        """Yield the loops around an event with their rounds, innermost first; an unrolled network is no loop."""
        for loop, number in reversed(event.loops):
            is_plain = loop.kind is LoopKind.DATA or not loop.code.is_comprehension
            if loop.kind in _TURNS and is_plain:
                yield loop, number

    def data_loop(self, event: ModelEvent) -> LoopRun | None:
        """Return the innermost loop around an event, if it goes over data."""
        first = next(self.turns(event), None)
        return first[0] if first is not None and first[0].kind is LoopKind.DATA else None

    def trains_in(self, loop: LoopRun) -> bool:
        """Return whether a loop sends something backward, or steps an optimizer."""
        kinds = _BACKWARD | _STEPS
        return any(event.kind in kinds and any(each is loop for each, _ in event.loops) for event in self.events)

    @staticmethod
    def mode(event: ModelEvent) -> Mode:
        """Return the mode of the model of a forward on all paths; UNKNOWN if paths differ or it is not known."""
        modes = {setting.mode for setting in event.modes}
        return modes.pop() if len(modes) == 1 else Mode.UNKNOWN

    def setters(self, event: ModelEvent) -> list[ModelEvent]:
        """Return the events that set the modes that a forward may have; none for the initial mode."""
        return [self.events[each.event] for each in event.modes if 0 <= each.event < len(self.events)]

    def is_trained_before(self, event: ModelEvent, since: int = -1) -> bool:
        """Return whether the model of a forward was trained, or given weights, between two events."""
        heap = self.entry.heap
        return any(
            since < one.number < event.number
            and self.is_sent_backward(one)
            and (one.target == event.target or Ref(event.target) in parts_of(heap, Ref(one.target)))
            for one in self.of_kind(EventKind.FORWARD)
        )

    def is_evaluation(self, event: ModelEvent) -> bool:
        """Return whether a forward is in evaluation mode, or runs a trained model apart from its training."""
        mode = self.mode(event)
        if mode is Mode.TRAINING:
            since = max((setter.number for setter in self.setters(event)), default=-1)
            return self.is_apart(event) and self.is_trained_before(event, since) and self.data_loop(event) is not None
        return mode is Mode.EVALUATION

    def has_loaded(self, event: ModelEvent, since: int = -1) -> bool:
        """Return whether the model of a forward was given weights between two events."""
        heap = self.entry.heap
        return any(
            since < one.number < event.number
            and one.target >= 0
            and Ref(event.target) in parts_of(heap, Ref(one.target))
            for one in self.of_kind(EventKind.LOAD_STATE)
        )

    def is_apart(self, event: ModelEvent) -> bool:
        """Return whether an event stands outside of the innermost loops of all trainings, as an evaluation does."""
        own = next(self.turns(event), None)
        inner = [next(self.turns(one), None) for one in self.backwards]
        return all((each[0] if each else None) is not (own[0] if own else None) for each in inner)

    def turn(self, event: ModelEvent) -> LoopRun | None:
        """Return the innermost loop around an event over data or numbers, or a `while` that asks for new inputs."""
        first = next(self.turns(event), None)
        if first is None or (first[0].kind is LoopKind.WHILE and not self._asks_for_inputs(event, first[0])):
            return None
        return first[0]

    def _asks_for_inputs(self, event: ModelEvent, loop: LoopRun) -> bool:
        """Return whether a call in the loop, such as `queue.get()`, makes the inputs of an event, and no model does."""
        models = self._union(forward.bit for forward in self.forwards)
        calls = [
            one
            for one in self.of_kind(EventKind.CALL, EventKind.FORWARD)
            if one.bit & event.inputs and not one.bit & models and not one.inputs & models
        ]
        return any(any(each is loop for each, _ in one.loops) for one in calls)

    def is_set_within(self, event: ModelEvent) -> bool:
        """Return whether the mode of a forward is set by a function of the run that also leads to the forward.

        Unknown callers may turn gradients off around a function, but not between what it does itself.
        """
        around = self._frames(event)
        return any(frame in around for setter in self.setters(event) for frame in self._frames(setter))

    @staticmethod
    def _frames(event: ModelEvent) -> set[Frame]:
        """Return the activations of functions that lead to an event."""
        found = set()
        frame: Frame | None = event.frame
        while frame is not None and frame.parent is not None:
            found.add(frame)
            frame = frame.parent
        return found

    def is_carried(self, event: ModelEvent, loop: LoopRun) -> bool:
        """Return whether the graph of a stored value reaches back into an earlier round of a loop."""
        number = next((each for one, each in event.loops if one is loop), 0)
        graph = event.graph
        while graph:
            place = graph.bit_length() - 1
            graph &= ~(1 << place)
            if any(one is loop and each < number for one, each in self.events[place].loops):
                return True
        return False

    def outlives(self, event: ModelEvent, loop: LoopRun) -> bool:
        """Return whether the object of an event is there before a loop, or the round of the event, begins."""
        held = self.object(event)
        if held is None or held.fields.get(BOUNDED):
            return False
        number = next((each for one, each in event.loops if one is loop), 1)
        births = loop.round_births[number - 1] if number <= len(loop.round_births) else loop.births
        return held.ident < births or (held.is_open and not held.sources)

    def is_emptied_in(self, event: ModelEvent, loop: LoopRun) -> bool:
        """Return whether a loop removes elements from the object of an event."""
        return any(
            one.target == event.target and any(each is loop for each, _ in one.loops)
            for one in self.of_kind(EventKind.EMPTY)
        )

    def escapes(self, event: ModelEvent) -> bool:
        """Return whether unknown callers receive a result with the graph of an event."""
        return bool(self.entry.is_open and self.expanded(self.entry.returned) & event.bit)

    @staticmethod
    def regions(event: ModelEvent) -> tuple[tuple[str, int, int], ...]:
        """Return the functions that lead to an event, with their lines; at a module's level, the loop or the line."""
        found = []
        frame: Frame | None = event.frame
        at: SourcePosition | None = event.at
        while frame is not None and at is not None:
            code = frame.code
            loops = [loop.code for loop, _ in event.loops if loop.function is code]
            first, last = (loops[-1].at.line, loops[-1].last_line) if loops else (at.line, at.end_line)
            lines = (first, last) if code.name == "<module>" else (code.line, code.last_line)
            found.append((code.file.path, *lines))
            at, frame = frame.call_at, frame.parent
        return tuple(found)

    def may_be_called_elsewhere(self) -> bool:
        """Return whether the function of an open run has callers that were not followed."""
        return self.entry.is_open and self.entry.is_named

    def site(self, event: ModelEvent, loop: LoopRun) -> tuple[str, SourcePosition]:
        """Return the position of an event in the code that owns the loop: its function, or a method of its class."""
        owner = loop.function.owner
        frame: Frame | None = event.frame
        at: SourcePosition | None = event.at
        while frame is not None and at is not None:
            is_own = frame.code.owner == owner and frame.code.file is loop.function.file and bool(owner)
            if frame.code is loop.function or is_own:
                return frame.code.file.path, at
            at, frame = frame.call_at, frame.parent
        return event.path, event.at

    @staticmethod
    def place(event: ModelEvent, loop: LoopRun | None) -> tuple[str, SourcePosition]:
        """Return the position of an event in the function of a loop: the call there that leads to it."""
        if loop is not None:
            at = event.at_in(loop.function)
            if at is not None:
                return loop.function.file.path, at
        return event.path, event.at

    @staticmethod
    def is_recorded(event: ModelEvent) -> bool:
        """Return whether gradients are on for sure."""
        return event.grad is GradMode.ON


def runs(index: ProjectIndex) -> list[Run]:
    """Return the runs of all entry points of a project."""
    return index.once("model runs", lambda: [Run(entry) for entry in program_of(index).runs])


def evaluated_lines(index: ProjectIndex) -> set[tuple[str, int]]:
    """Return the files and lines of forwards that are in evaluation mode in all runs that know the mode."""
    return index.once("forwards in evaluation mode", lambda: _evaluated_lines(index))


def _evaluated_lines(index: ProjectIndex) -> set[tuple[str, int]]:
    modes: dict[tuple[str, int], set[Mode]] = {}
    for run in runs(index):
        for forward in run.forwards:
            found = {setting.mode for setting in forward.modes} - {Mode.UNKNOWN}
            modes.setdefault((forward.path, forward.at.line), set()).update(found)
    return {place for place, found in modes.items() if found == {Mode.EVALUATION}}


__all__ = [
    "EventKind",
    "GradMode",
    "LoopKind",
    "LoopRun",
    "Mode",
    "ModelEvent",
    "ModelMatch",
    "Run",
    "evaluated_lines",
    "runs",
]
