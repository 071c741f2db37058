"""Plan the inputs of a comparison by trying them on the baseline; inputs it rejects are not used."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..results import MissingPart, described
from ..target import module_state as parameters
from ..target.input_spec import TargetError
from .call_modes import COPY, MODES
from .edge_cases import EdgeCase, derive, derive_further, with_rows, without_defaults
from .float64_reference import coarsest_of
from .input_probe import Probe, chance_of, needs_template
from .observe import own_path
from .plan_step import PlannedStep
from .result import BaselineRefusal, PlannedCalls
from .tensor_bundle import Piece, capture, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..target.target import LoadedTarget

_PLAIN = 4
_FEWEST_CALLS = 6
_MOST_CALLS = 48
_REPEATS_S = 0.25
# Of a slow target, inputs with fewer rows are tried, in less time, and it is called fewer times in a row: each of the
# runs that follow repeats all of it.
_SLOW_S, _QUICK_S, _SLOW_BUDGET_S, _FEWEST_SLOW_CALLS = 0.05, 0.01, 4.0, 3
_BUDGET_S = 10.0
# Time for calls in other ways, of the baseline alone; further runs repeat them.
_FURTHER_S = 0.3
_MOST_BYTES = 512 << 20
_STATES = ("copy", "load", "assign")
_REAL = {"float16", "bfloat16", "float32", "float64"}


def prepare(
    target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]
) -> tuple[PlannedCalls, tuple[int, ...]]:
    """Plan a comparison by trying it on the baseline, in a separate process whose state changes end with it.

    Args:
        target: The baseline.
        request: `seed`; `train`: whether inputs require gradients; `budget_s` and `budget_bytes` in total.
        tell: Progress callback.

    Returns:
        A summary, and the descriptor of the plan's bundle: inputs and states of
        parameters, no outputs of the baseline, so that the candidate may read it.

    Raises:
        TargetError: The inputs cannot be transferred to another process.
    """
    return _Planner(target, request, tell).make()


@dataclass
class _Plan:
    """Plan under construction.

    Attributes:
        steps: Steps, in order.
        pieces: Inputs and states by name.
        refused: Inputs that the baseline rejects, with its messages.
        missing: Steps skipped for lack of time or memory.
        seeds: Seed of a call on each input.
    """

    steps: list[PlannedStep] = field(default_factory=list)
    pieces: dict[str, Piece] = field(default_factory=dict)
    refused: list[BaselineRefusal] = field(default_factory=list)
    missing: list[MissingPart] = field(default_factory=list)
    seeds: dict[str, int] = field(default_factory=dict)

    def nbytes(self) -> int:
        return sum(piece.nbytes() for piece in self.pieces.values())


class _Planner:
    def __init__(self, target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> None:
        self._target, self._tell = target, tell
        self._seed = int(request["seed"])
        self._train = bool(request.get("train")) and target.kind != "step"
        self._most_bytes = int(request.get("budget_bytes", _MOST_BYTES))
        self._chance = chance_of(self._seed)
        self._plan = _Plan()
        ends = time.monotonic() + float(request.get("budget_s", _BUDGET_S))
        self._probe = Probe(target, self._plan.pieces, ends)
        self._further_s = float(request.get("further_s", _FURTHER_S))
        self._call_s = 0.0
        self._rows: int | None = None
        self._asks = False
        self._coarsest = "float64"
        self._state = "state 0" if target.module is not None else None
        self._ownership = {"outputs": False, "inputs": False, "is_same": False, "has_history": False}

    def make(self) -> tuple[PlannedCalls, tuple[int, ...]]:
        """Make the plan; return its summary, and the descriptor of its bundle."""
        self._make_states()
        self._make_inputs()
        self._plain()
        self._shorten()
        self._history()
        self._derived({"sizes", "layout"})
        self._parameters()
        # Last, because a target that stores a NaN keeps it.
        self._derived({"numbers", "precision"})
        self._further()
        self._add("as at first, at the end", "history", "plain 1", same_as=0, has_backward=False)
        module = self._target.module
        about = {
            "steps": described(self._plan.steps),
            "refused": described(self._plan.refused),
            "missing": described(self._plan.missing),
            "saved": parameters.saved_names(module) if module is not None else [],
            "working": self._working(),
            "coarsest": self._coarsest,
            "is_stateless": self._ownership["is_same"],
            "file": own_path(self._target),
        }
        summary = PlannedCalls(
            steps=tuple(step.name for step in self._plan.steps),
            refused=tuple(self._plan.refused),
            missing=tuple(self._plan.missing),
            working=self._working(),
            coarsest=self._coarsest,
            is_stateless=self._ownership["is_same"] and not self._ownership["has_history"],
            call_ns=int(self._call_s * 1e9),
            # Optimizers and compiled code import it, which takes seconds in each process unless the fork server has it.
            needs_compiler="torch._dynamo" in sys.modules,
        )
        return summary, (write(self._plan.pieces, about),)

    def _make_states(self) -> None:
        if self._target.module is None:
            return
        self._plan.pieces["state 0"] = state = capture(parameters.state_of(self._target.module))
        if state.nbytes():
            for number in range(1, len(_STATES) + 1):
                self._plan.pieces[f"state {number}"] = parameters.changed(state, self._seed + number)

    def _make_inputs(self) -> None:
        for number in range(1, _PLAIN + 1):
            made = self._target.inputs(self._input_seed(number))
            self._plan.pieces[f"plain {number}"] = piece = capture((made.args, made.kwargs), is_whole=True)
            for record in piece.tensors:
                if "problem" in record:
                    raise TargetError(
                        f"an input of {self._target.name!r} cannot be sent to another process: {record['problem']}",
                        "give it plain dense tensors",
                    )

    def _input_seed(self, number: int) -> int:
        return (self._seed * 1_000_003 + number) % 2**31

    def _plain(self) -> None:
        """Add the plain calls; an exception of the baseline on its own inputs propagates as bad input."""
        self._asks = self._train and self._probe.refusal(self._step("plain 1", "plain", "plain 1", asks=True)) is None
        first = self._step("plain 1", "plain", "plain 1")
        begun = time.monotonic()
        self._probe.run(first)
        self._call_s = time.monotonic() - begun
        args, kwargs = self._probe.inputs(first)
        with contextlib.suppress(Exception):
            self._coarsest = coarsest_of(lambda: self._target.call(*args, **kwargs))
        for number in range(1, _PLAIN + 1):
            self._add(f"plain {number}", "plain", f"plain {number}", after="watch" if number == 1 else None)

    def _shorten(self) -> None:
        """Of a slow target, have edge cases of fewer rows, if it accepts them and is quicker then."""
        if self._call_s < _SLOW_S:
            return
        self._probe.ends = min(self._probe.ends, time.monotonic() + _SLOW_BUDGET_S)
        args, kwargs = self._probe.inputs(self._step("plain 1", "plain", "plain 1", asks=False))
        fewer = with_rows(args, kwargs, _QUICK_S / self._call_s)
        if fewer is None:
            return
        self._plan.pieces["fewer rows"] = capture(fewer[1], is_whole=True)
        begun = time.monotonic()
        refusal = self._probe.refusal(self._step("fewer rows", "sizes", "fewer rows"))
        if refusal is None and time.monotonic() - begun < self._call_s / 2:
            self._rows = fewer[0]
            self._add("fewer rows", "sizes", "fewer rows")

    def _history(self) -> None:
        """Add calls that expose state kept from one call to the next."""
        quiet: dict[str, Any] = {"group": "history", "has_backward": False, "is_close": False}
        self._ownership = self._probe.ownership(self._step("plain 1", "plain", "plain 1", asks=False))
        self._add("the same numbers in new tensors", input_="plain 1", same_as=0, **quiet)
        if self._ownership["outputs"]:
            name = "the caller wrote into what was returned before"
            self._add(name, input_="plain 1", same_as=0, before="overwrite outputs", **quiet)
        self._derived({"history"})
        if self._are_alike():
            self._add("plain 2 once more", input_="plain 2", same_as=1, **quiet)
            self._add("the same tensors with other numbers", input_="plain 3", same_as=2, make="same tensors", **quiet)
            self._add("the same memory with other numbers", input_="plain 4", same_as=3, make="same memory", **quiet)
        if self._ownership["inputs"]:
            name = "the caller wrote into the inputs afterwards"
            self._add(name, input_="plain 1", same_as=0, after="overwrite inputs", **quiet)
        fewest = _FEWEST_CALLS if self._call_s < _SLOW_S else _FEWEST_SLOW_CALLS
        calls = int(min(max(_REPEATS_S / max(self._call_s, 1e-6), fewest), _MOST_CALLS))
        for number in range(calls):
            which = self._chance.randrange(_PLAIN)
            name = f"call {number + 1} of {calls} in a row"
            self._add(name, input_=f"plain {which + 1}", same_as=which, is_repeat=True, **quiet)

    def _are_alike(self) -> bool:
        """Return whether all plain inputs have the same shapes, so that one can be written into another's memory."""
        shapes = [
            [
                (tensor["shape"], tensor["dtype"], tensor["stride"])
                for tensor in self._plan.pieces[f"plain {number}"].tensors
            ]
            for number in range(1, _PLAIN + 1)
        ]
        return all(shape == shapes[0] for shape in shapes) and bool(shapes[0])

    def _derived(self, groups: set[str]) -> None:
        for name, group, inputs in self._edges(groups):
            self._tell(f"running the baseline on {name}", 0.5)
            piece = capture(inputs, is_whole=True)
            why = "no time was left" if time.monotonic() > self._probe.ends else ""
            why = why or ("no room was left" if self._plan.nbytes() + piece.nbytes() > self._most_bytes else "")
            if why:
                self._plan.missing.append(MissingPart(name, why))
                continue
            self._plan.pieces[name] = piece
            self._add(name, group, name)

    def _edges(self, groups: set[str]) -> Iterator[tuple[str, str, Any]]:
        args, kwargs = self._probe.inputs(self._step("plain 1", "plain", "plain 1", asks=False))
        for edge in derive(args, kwargs, self._seed, rows=self._rows):
            if edge.group in groups:
                yield edge.name, edge.group, (edge.args, edge.kwargs)

    def _parameters(self) -> None:
        """Add calls after parameter changes, in each of the ways of a training run or a server."""
        module = self._target.module
        if "state 1" in self._plan.pieces:
            words = ("changed in place", "loaded from a state dict", "replaced by others")
            for number, (how, word) in enumerate(zip(_STATES, words, strict=True), start=1):
                self._add(f"parameters {word}", "parameters", "plain 2", state=f"state {number}", set=how)
        if module is not None and module.training:
            self._add("in evaluation", "mode", "plain 1", mode="evaluation")

    def _further(self) -> None:
        """Add calls in ways that the person's own inputs do not show, as long as there is time; list the others."""
        ends = min(time.monotonic() + self._further_s, self._probe.ends)
        is_quiet: dict[str, Any] = {"is_close": False}
        ways: list[tuple[str, Callable[[], None]]] = [
            (mode, partial(self._add, mode, "further", "plain 1", mode=mode, has_backward=False, **is_quiet))
            for mode in MODES
        ]
        if not self._asks and self._target.kind != "step":
            ways.insert(0, ("requires_grad", partial(self._add, "requires_grad", "further", "plain 1", asks=True)))
        args, kwargs = self._probe.inputs(self._step("plain 1", "plain", "plain 1", asks=False))
        if self._target.call is self._target.module and "state 1" in self._plan.pieces:
            ways.append(
                (COPY, partial(self._add, COPY, "further", "plain 1", mode=COPY, has_backward=False, **is_quiet))
            )
        edges = [*derive_further(args, kwargs, rows=self._rows)]
        if (shorter := without_defaults(self._target.call, args, kwargs)) is not None:
            edges.insert(0, shorter)
        ways += [(edge.name, partial(self._add_edge, edge)) for edge in edges]
        if self._asks:
            self._plan.missing.append(MissingPart("second derivatives", "only first ones are compared"))
        if torch.get_num_threads() == 1:
            self._plan.missing.append(MissingPart("several threads", "torch has one thread here"))
        if any(tensor["dtype"].startswith(("int", "uint")) for tensor in self._plan.pieces["plain 1"].tensors):
            self._plan.missing.append(MissingPart("integers larger than yours", "they may be no valid indices"))
        self._plan.missing.append(MissingPart("an empty last dimension", "an input of yours with one tests it"))
        for name, add in ways:
            if time.monotonic() > ends:
                self._plan.missing.append(MissingPart(name, "no time was left; --effort thorough tries it"))
            else:
                self._tell(f"running the baseline on {name}", 0.6)
                add()

    def _add_edge(self, edge: EdgeCase) -> None:
        piece = capture((edge.args, edge.kwargs), is_whole=True)
        if self._plan.nbytes() + piece.nbytes() > self._most_bytes:
            self._plan.missing.append(MissingPart(edge.name, "no room was left"))
            return
        self._plan.pieces[edge.name] = piece
        self._add(edge.name, edge.group, edge.name, has_backward=False, is_close=False)

    def _add(self, name: str, group: str, input_: str, **more: Any) -> None:
        """Add a step if the baseline accepts it."""
        step = self._step(name, group, input_, **more)
        if group in {"plain", "history"} and input_.startswith("plain"):
            if input_ == name:
                self._probe.run(step)
            self._plan.steps.append(step)
            return
        refusal = self._probe.refusal(step)
        if refusal is not None and step.asks_for_gradients:
            step.asks_for_gradients = False
            refusal = self._probe.refusal(step)
        if refusal is not None:
            self._plan.refused.append(refusal)
        if refusal is None or refusal.is_deliberate:
            self._plan.steps.append(step)

    def _step(self, name: str, group: str, input_: str, *, asks: bool | None = None, **more: Any) -> PlannedStep:
        """Return a step."""
        number = int(input_.rsplit(maxsplit=1)[-1]) if input_.startswith("plain") else 1
        given: dict[str, Any] = {"state": self._state, "has_backward": self._target.kind != "step", **more}
        step = PlannedStep(
            name=name,
            group=group,
            input=input_,
            template_seed=self._input_seed(number),
            needs_template=needs_template(self._plan.pieces[input_].tree),
            seed=self._plan.seeds.setdefault(input_, self._chance.getrandbits(31)),
            asks_for_gradients=self._asks if asks is None else asks,
            **given,
        )
        step.is_distinct = step.key not in {each.key for each in self._plan.steps}
        return step

    def _working(self) -> str:
        """Return the first floating-point dtype of inputs, else of parameters: random numbers are drawn in it."""
        for name in ("plain 1", "state 0"):
            for record in self._plan.pieces[name].tensors if name in self._plan.pieces else ():
                if record["dtype"] in _REAL:
                    return str(record["dtype"])
        return str(torch.get_default_dtype()).removeprefix("torch.")
