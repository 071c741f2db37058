"""Events of a run: what happens to models, losses and containers, where, and in which loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.review.model.heap import UNKNOWN_MODE

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.review.model.heap import Changes, Modes, NameScope
    from esper_agents.review.model.ir import Code, SourcePosition
    from esper_agents.review.model.ir import Loop as LoopCode
    from esper_agents.review.model.values import Value


class EventKind(StrEnum):
    """Kind of an event."""

    INPUT = "input"
    ELEMENT = "element"
    PART = "part"
    FORWARD = "forward"
    CALL = "call"
    MODE = "mode"
    BACKWARD = "backward"
    GRADIENT = "gradient"
    STEP = "step"
    CLEAR_GRADIENTS = "clear gradients"
    FETCH = "fetch"
    STORE = "store"
    EMPTY = "empty"
    LOAD_STATE = "load state"
    MOVE = "move"
    LOSS = "loss"
    EFFECT = "effect"
    # A log-probability is multiplied by something that holds a graph.
    WEIGHT = "weight"
    # Both inputs of a loss hold graphs: that of the target, with the events of the prediction as inputs.
    TARGET = "target"
    # A tensor is written in place that autograd keeps for the next backward.
    OVERWRITE = "overwrite"
    PARAMETER = "parameter"
    # A module becomes an attribute of another object, outside of constructors.
    SET_MODULE = "set module"


class GradMode(StrEnum):
    """Whether operations record a graph."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class LoopKind(StrEnum):
    """What a loop iterates over."""

    DATA = "data"
    LAYERS = "layers"
    RANGE = "range"
    WHILE = "while"
    ITEMS = "items"


@dataclass(slots=True, eq=False)
class LoopRun:
    """One execution of a loop.

    Attributes:
        code: The loop.
        function: The function it stands in.
        kind: What it iterates over.
        round_births: Number of heap objects when each round began.
        birth: Number of events when it began.
        births: Number of heap objects when it began.
        round: Present round, from 1.
        source: Identity of the object iterated over; -1 if it is none.
        breaks, continues: Ends of paths that left the loop or a round.
        entry, start: Marks of the trail at the entry and at the start of the round.
    """

    code: LoopCode
    function: Code
    kind: LoopKind
    birth: int
    births: int
    round: int = 1
    source: int = -1
    breaks: list[Changes] = field(default_factory=list)
    continues: list[Changes] = field(default_factory=list)
    entry: int = 0
    start: int = 0
    round_births: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Frame:
    """One activation of a function.

    Attributes:
        code: The function.
        scope: Its variables.
        temps: Its temporaries.
        parent: The activation that called it.
        call_at: Position of the call in the parent.
        mark: Mark of the trail at the start.
        exits: Ends of paths that returned.
        returned: Values returned.
        arms: Number of branches and loops around the present instruction.
        loop_base: Number of loops around the call.
        receiver: Object whose method it is.
        on_yield: Code to run at a `yield`: the body of a `with`.
        yielded: Values yielded.
        is_open: Whether callers are unknown.
        is_direct: Whether a `return` outside of branches and loops ended it.
    """

    code: Code
    scope: NameScope
    temps: list[Value]
    parent: Frame | None = None
    call_at: SourcePosition | None = None
    mark: int = 0
    exits: list[Changes] = field(default_factory=list)
    returned: list[Value] = field(default_factory=list)
    arms: int = 0
    loop_base: int = 0
    receiver: Value | None = None
    on_yield: Callable[[Value], None] | None = None
    yielded: list[Value] = field(default_factory=list)
    is_open: bool = False
    is_direct: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ModelEvent:
    """One thing that a run would do.

    Attributes:
        number: Its number in the run of the entry point; the bit of `sources` and `graph` of what it made.
        kind: Its kind.
        at: Its position.
        frame: The activation it happens in; its parents are the callers.
        loops: Loops around it with their rounds, outermost first.
        grad: Grad mode.
        depth: Number of modules whose `forward` is running.
        target: Identity of the object it is about: the model, the container, the optimizer; -1 without one.
        value: Identity of the module that becomes an attribute of the target; -1 without one.
        modes: Possible modes of the target.
        inputs: Sources of the arguments.
        sources, graph: Of the value stored, fetched or sent backward.
        graph_certain: Whether the graph is there on all joined paths.
        maybe: Events of the graph that are not in it on all joined paths.
        retains: Whether a backward may keep the graph for another one.
        may_be_reset: Whether a branch may have set back the sum that a value is added to.
        name: Method or effect.
        text: The expression, for messages.
        owners: Modules whose parameters an optimizer steps or a call clears, as far as they are known.
        hands_over: Whether code that is not known receives an optimizer, or an object that holds one.
        is_conditional: Whether a branch inside its function decides about it.
        acts: Whether the target acts differently in the two modes, None if unknown.
    """

    number: int
    kind: EventKind
    at: SourcePosition
    frame: Frame
    loops: tuple[tuple[LoopRun, int], ...]
    grad: GradMode
    depth: int
    target: int = -1
    modes: Modes = UNKNOWN_MODE
    inputs: int = 0
    sources: int = 0
    graph: int = 0
    graph_certain: bool = True
    maybe: int = 0
    retains: bool = False
    may_be_reset: bool = False
    name: str = ""
    text: str = ""
    owners: frozenset[int] = frozenset()
    hands_over: bool = False
    is_conditional: bool = False
    acts: bool | None = None
    value: int = -1

    @property
    def path(self) -> str:
        """Path of its file."""
        return self.frame.code.file.path

    @property
    def bit(self) -> int:
        """Its bit in `sources` and `graph`."""
        return 1 << self.number

    def at_in(self, function: Code) -> SourcePosition | None:
        """Return its position in one of the functions that are running: its own, or that of the call."""
        frame: Frame | None = self.frame
        at: SourcePosition | None = self.at
        while frame is not None:
            if frame.code is function:
                return at
            at, frame = frame.call_at, frame.parent
        return None
