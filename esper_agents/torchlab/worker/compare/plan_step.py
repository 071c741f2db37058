"""Steps of a comparison: a planned call, and what a run of it showed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

# Group of the ways to call a target that the person's own inputs do not show.
FURTHER = "further"


@dataclass(slots=True, kw_only=True)
class PlannedStep:
    """Planned call of both arms.

    Attributes:
        name: Name of the step.
        group: `plain`, `history`, `sizes`, `layout`, `numbers`, `precision`, `parameters`, `mode` or `further`.
        input: Name of the inputs.
        template_seed: Seed of the inputs that provide what only a live example can reproduce.
        needs_template: Whether the inputs need one.
        seed: Seed of the generators before the call.
        state: Name of the parameters; None for a function.
        asks_for_gradients: Whether the inputs require gradients.
        has_backward: Whether backward is run.
        set: How the parameters are set.
        mode: `given`, `evaluation` of the module, or a mode of torch: a name in `call_modes.MODES`.
        make: How the inputs are made: `fresh`, `same tensors` or `same memory`.
        before: Action of the caller before the call.
        after: Action of the caller after the call.
        same_as: Number of the step whose output it must equal.
        is_close: Whether effects are checked.
        is_repeat: Whether it is one of several consecutive calls.
        is_distinct: Whether it is the first with its inputs, parameters and mode.
    """

    name: str
    group: str
    input: str
    template_seed: int
    needs_template: bool
    seed: int
    state: str | None
    asks_for_gradients: bool
    has_backward: bool
    set: str = "copy"
    mode: str = "given"
    make: str = "fresh"
    before: str | None = None
    after: str | None = None
    same_as: int | None = None
    is_close: bool = True
    is_repeat: bool = False
    is_distinct: bool = True

    @property
    def key(self) -> tuple[str, str | None, str, bool]:
        """Inputs, parameters, mode, and whether a `further` step asks for gradients that others do not ask for."""
        return self.input, self.state, self.mode, self.group == FURTHER and self.asks_for_gradients


@dataclass(frozen=True, slots=True)
class RaisedError:
    """Exception of a target.

    Attributes:
        type: Its class.
        message: First line of its text.
        file: File of the line in user code; None outside the project.
        line: That line.
        is_deliberate: Whether a `raise` of user code made it.
    """

    type: str
    message: str
    file: str | None
    line: int | None
    is_deliberate: bool

    def __str__(self) -> str:
        """Return its class, its text and its line."""
        where = f" at {self.file}:{self.line}" if self.file else ""
        return f"{self.type}: {self.message}{where}"


@dataclass(slots=True)
class ObservedStep:
    """Observations of one step; pieces by name.

    Attributes:
        name: Name of the step.
        raised: Its exception; None if it returned.
        output: Piece with its output.
        generators: State of the random generators after it.
        relations: Tensors with which the output shares memory.
        work_while_idle_ns: Processor time of the process during a pause; None without one.
        is_unfinished: Whether the output changed after it was returned.
        modes: Mode of torch that it left on, in words; empty for none.
        inputs_after: Piece with the inputs, if it changed them.
        state_after: Piece with the parameters after it.
        changes_state: Whether it changed the parameters.
        gradients: Piece with the gradients.
        backward_raised: Exception of backward.
    """

    name: str
    raised: RaisedError | None = None
    output: str | None = None
    generators: dict[str, Any] | None = None
    relations: list[list[Any]] | None = None
    work_while_idle_ns: int | None = None
    is_unfinished: bool = False
    modes: str = ""
    inputs_after: str | None = None
    state_after: str | None = None
    changes_state: bool = False
    gradients: str | None = None
    backward_raised: RaisedError | None = None

    def piece(self, what: str) -> str | None:
        """Return the name of the piece of a kind: `output`, `gradients`, `state_after` or `inputs_after`."""
        name = getattr(self, what)
        return name if isinstance(name, str) else None

    @staticmethod
    def read(stored: dict[str, Any]) -> ObservedStep:
        """Return the observations as written into a bundle."""
        known = {field.name: stored[field.name] for field in fields(ObservedStep) if field.name in stored}
        for name in ("raised", "backward_raised"):
            if known.get(name) is not None:
                known[name] = RaisedError(**known[name])
        return ObservedStep(**known)


@dataclass(frozen=True, slots=True)
class ObservedEnd:
    """Observations after all steps.

    Attributes:
        changed_outputs: Steps whose output changed later.
        own_ns: Processor time of the consecutive calls.
        others_ns: Processor time of other threads in the same time.
        has_children: Whether child processes are left.
        work_while_idle_ns: Processor time of the process during a pause.
    """

    changed_outputs: list[int]
    own_ns: int
    others_ns: int
    has_children: bool
    work_while_idle_ns: int


@dataclass(frozen=True, slots=True)
class ObservedProcess:
    """Observations of the process of a run.

    Attributes:
        end: Observations after all steps.
        file: Path of the target's file; empty outside the project.
        after: Global state after all steps, by name.
        replaced: Replaced functions of libraries, by name.
        replaced_by_user: Names of those that user code replaced.
        code: Function that a call of the target runs, with its line; empty if that is not Python.
    """

    end: ObservedEnd
    file: str
    after: dict[str, Any]
    replaced: dict[str, Any]
    replaced_by_user: list[str]
    code: str = ""
