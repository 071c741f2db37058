"""Decides what both arms of a comparison are run on, by trying it on the baseline alone: where it refuses, nobody is judged."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from . import aftermath, parameters
from .bundle import Piece, address, capture, write
from .edges import derive
from .gradients import run_backward
from .inputs import TargetError
from .observe import described, own_path
from .precision import coarsest_of
from .structure import tensors_of
from .target import Target

_Tell = Callable[[str, float], None]
_PLAIN = 4
_MOST_CALLS = 48
_BUDGET_S = 10.0
_REPEATS_S = 0.25
_MOST_BYTES = 512 << 20


class _TooLongError(BaseException):
    """A call takes longer than what is left for all of them; no `except Exception` of the user's may swallow it."""


@dataclass
class _Plan:
    """A plan while it is made.

    Attributes:
        steps: What is run, in order.
        pieces: Inputs and states by name.
        refused: What the baseline does not take, with its words.
        missing: What there was no time or room for.
        seeds: The seed of a call on each input.
    """

    steps: list[dict[str, Any]] = field(default_factory=list)
    pieces: dict[str, Piece] = field(default_factory=dict)
    refused: list[dict[str, Any]] = field(default_factory=list)
    missing: list[dict[str, str]] = field(default_factory=list)
    seeds: dict[str, int] = field(default_factory=dict)

    def nbytes(self) -> int:
        return sum(each.nbytes() for each in self.pieces.values())


class _Planner:
    def __init__(self, target: Target, request: dict[str, Any], tell: _Tell) -> None:
        self._target, self._tell = target, tell
        self._seed = int(request["seed"])
        self._train = bool(request.get("train")) and target.kind != "step"
        self._ends = time.monotonic() + float(request.get("budget_s", _BUDGET_S))
        self._most_bytes = int(request.get("budget_bytes", _MOST_BYTES))
        self._chance = random.Random(self._seed)  # noqa: S311 - a design, not a secret
        self._plan = _Plan()
        self._call_s = 0.0
        self._asks = False
        self._coarsest = "float64"
        self._state: str | None = None
        self._is_stateless = True

    def make(self) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Make the plan; return it in a few words, and the descriptor of its bundle."""
        self._begin()
        self._plain()
        self._history()
        self._derived({"sizes", "layout"})
        self._parameters()
        self._derived({"numbers", "precision"})
        self._add("as at first, at the end", "history", "plain 1", same_as=0, has_backward=False)
        about = {
            "steps": self._plan.steps,
            "refused": self._plan.refused,
            "missing": self._plan.missing,
            "saved": parameters.saved_names(self._target.module) if self._target.module is not None else [],
            "working": _working(self._plan.pieces),
            "coarsest": self._coarsest,
            "is_stateless": self._is_stateless,
            "file": own_path(self._target),
        }
        summary = {name: about[name] for name in ("refused", "missing", "working", "coarsest", "is_stateless")}
        summary["steps"] = [each["name"] for each in self._plan.steps]
        summary["call_ns"] = int(self._call_s * 1e9)
        return summary, (write(self._plan.pieces, about),)

    def _begin(self) -> None:
        module = self._target.module
        if module is not None:
            self._state = "state 0"
            self._plan.pieces["state 0"] = state = capture(parameters.state_of(module))
            if state.nbytes():
                for number in (1, 2, 3):
                    self._plan.pieces[f"state {number}"] = parameters.changed(state, self._seed + number)
        for number in range(1, _PLAIN + 1):
            made = self._target.inputs(self._input_seed(number))
            self._plan.pieces[f"plain {number}"] = capture((made.args, made.kwargs), is_whole=True)
        self._refuse_what_cannot_be_sent()

    def _refuse_what_cannot_be_sent(self) -> None:
        for record in self._plan.pieces["plain 1"].tensors:
            if "problem" in record:
                raise TargetError(
                    f"an input of {self._target.name!r} cannot be given to another process: {record['problem']}",
                    "give it plain dense tensors",
                )

    def _input_seed(self, number: int) -> int:
        return (self._seed * 1_000_003 + number) % 2**31

    def _plain(self) -> None:
        """Add the plain calls; what the baseline raises on its own inputs is bad input, and propagates."""
        self._asks = self._train and self._can_ask()
        begun = time.monotonic()
        self._probe(self._step("plain 1", "plain", "plain 1"))
        self._call_s = time.monotonic() - begun
        first = self._step("plain 1", "plain", "plain 1")
        args, kwargs = self._inputs(first)
        aftermath.seed(first["seed"])
        with contextlib.suppress(Exception):
            self._coarsest = coarsest_of(lambda: self._target.call(*args, **kwargs))
        for number in range(1, _PLAIN + 1):
            after = "watch" if number == 1 else None
            self._add(f"plain {number}", "plain", f"plain {number}", after=after)

    def _can_ask(self) -> bool:
        step = self._step("plain 1", "plain", "plain 1", asks_for_gradients=True)
        try:
            self._probe(step)
        except Exception:  # noqa: BLE001 - it shows when it is called without
            return False
        return True

    def _history(self) -> None:
        """Add calls that whoever keeps something from one call to the next gets wrong."""
        quiet = {"group": "history", "has_backward": False, "is_close": False}
        self._add("the same numbers in new tensors", input_="plain 1", same_as=0, **quiet)
        writable = self._may_overwrite()
        if writable["outputs"]:
            name = "the caller wrote into what was returned before"
            self._add(name, input_="plain 1", same_as=0, before="overwrite outputs", **quiet)
        for edge in self._edges({"history"}):
            self._try(edge, same_as=None)
        if self._are_alike():
            self._add("plain 2 once more", input_="plain 2", same_as=1, **quiet)
            self._add("the same tensors with other numbers", input_="plain 3", same_as=2, make="same tensors", **quiet)
            self._add("the same memory with other numbers", input_="plain 4", same_as=3, make="same memory", **quiet)
        if writable["inputs"]:
            name = "the caller wrote into the inputs afterwards"
            self._add(name, input_="plain 1", same_as=0, after="overwrite inputs", **quiet)
        calls = int(min(max(_REPEATS_S / max(self._call_s, 1e-6), 6), _MOST_CALLS))
        for number in range(calls):
            which = self._chance.randrange(_PLAIN)
            name = f"call {number + 1} of {calls} in a row"
            self._add(name, input_=f"plain {which + 1}", same_as=which, is_repeat=True, **quiet)

    def _are_alike(self) -> bool:
        shapes = [
            [(each["shape"], each["dtype"], each["stride"]) for each in self._plan.pieces[f"plain {number}"].tensors]
            for number in range(1, _PLAIN + 1)
        ]
        return all(each == shapes[0] for each in shapes) and bool(shapes[0])

    def _may_overwrite(self) -> dict[str, bool]:
        """Return whether a caller may write into outputs and inputs without changing anything that is not its own."""
        step = self._step("plain 1", "plain", "plain 1", asks_for_gradients=False)
        given, inputs = self._probe(step)
        outputs, taken = (
            [span for each in tensors_of(nest) if (span := address(each)) is not None] for nest in (given, inputs)
        )
        module = self._target.module
        state = parameters.state_of(module).values() if module is not None else ()
        own = [span for each in state if (span := address(each)) is not None]
        is_shared = any(one[0] < other[1] and other[0] < one[1] for one in outputs for other in taken + own)
        before = capture(given)
        again, _ = self._probe(step)
        self._is_stateless = capture(again) == before
        held = [span for each in tensors_of(again) if (span := address(each)) is not None]
        is_kept = any(one[0] < other[1] and other[0] < one[1] for one in outputs for other in held)
        return {"outputs": bool(outputs) and not is_shared and not is_kept, "inputs": not is_shared and bool(taken)}

    def _derived(self, groups: set[str]) -> None:
        for edge in self._edges(groups):
            self._try(edge)

    def _edges(self, groups: set[str]) -> Iterator[tuple[str, str, Any]]:
        args, kwargs = self._inputs(self._step("plain 1", "plain", "plain 1", asks_for_gradients=False))
        for edge in derive(args, kwargs, self._seed):
            if edge.group in groups:
                yield edge.name, edge.group, (edge.args, edge.kwargs)

    def _try(self, edge: tuple[str, str, Any], same_as: int | None = None) -> None:
        name, group, inputs = edge
        self._tell(f"trying the baseline on {name}", 0.5)
        piece = capture(inputs, is_whole=True)
        if time.monotonic() > self._ends or self._plan.nbytes() + piece.nbytes() > self._most_bytes:
            why = "no time was left" if time.monotonic() > self._ends else "no room was left"
            self._plan.missing.append({"what": name, "why": why})
            return
        self._plan.pieces[name] = piece
        self._add(name, group, name, same_as=same_as)

    def _parameters(self) -> None:
        """Add calls after the parameters changed, in each of the ways they change in a training run or a server."""
        if "state 1" in self._plan.pieces:
            for number, how, name in (
                (1, "copy", "parameters changed in place"),
                (2, "load", "parameters loaded from a state dict"),
                (3, "assign", "parameters replaced by others"),
            ):
                self._add(name, "parameters", "plain 2", state=f"state {number}", set_=how)
        module = self._target.module
        if module is not None and module.training:
            self._add("in evaluation", "mode", "plain 1", mode="evaluation")

    def _add(self, name: str, group: str, input_: str, **more: Any) -> None:
        """Add a step if the baseline takes it."""
        step = self._step(name, group, input_, **more)
        if group in {"plain", "history"} and input_.startswith("plain"):
            if input_ == name:
                self._probe(step)
            self._plan.steps.append(step)
            return
        for asks in (step["asks_for_gradients"], False):
            step["asks_for_gradients"] = asks
            refusal = self._refusal(step)
            if refusal is None or not asks:
                break
        if refusal is not None:
            self._plan.refused.append({"what": name, **refusal})
        if refusal is None or refusal["is_deliberate"]:
            self._plan.steps.append(step)

    def _refusal(self, step: dict[str, Any]) -> dict[str, Any] | None:
        try:
            self._probe(step)
        except _TooLongError:
            return {"type": "TimeoutError", "message": "it takes too long", "is_deliberate": False}
        except Exception as error:  # noqa: BLE001 - whatever the baseline refuses it with is what is noted
            return described(self._target, error)
        return None

    def _probe(self, step: dict[str, Any]) -> tuple[Any, Any]:
        """Run the baseline on a step's inputs; return what it returned and what it took."""
        args, kwargs = self._inputs(step)
        module = self._target.module
        if module is not None and step["state"] is not None:
            values = parameters.prepared(self._plan.pieces[step["state"]].restore(), is_wide=False)
            everything = parameters.Matching({name: name for name in parameters.state_of(module)})
            parameters.write(module, everything, values, step["set"])
        aftermath.seed(step["seed"])
        flags = [(each, each.training) for each in module.modules()] if module is not None else []
        try:
            if module is not None and step["mode"] == "evaluation":
                module.eval()
            with _at_most(max(self._ends - time.monotonic(), 1.0) if step["group"] != "plain" else 0):
                given = self._target.call(*args, **kwargs)
                if step["has_backward"]:
                    run_backward(module, None, given, (args, kwargs), step["seed"])
        finally:
            for each, flag in flags:
                each.training = flag
        return given, (args, kwargs)

    def _inputs(self, step: dict[str, Any]) -> tuple[Any, Any]:
        template = None
        if step["needs_template"]:
            made = self._target.inputs(step["template_seed"])
            template = (made.args, made.kwargs)
        args, kwargs = self._plan.pieces[step["input"]].restore(template)
        if step["asks_for_gradients"]:
            for each in tensors_of((args, kwargs)):
                if each.is_floating_point() or each.is_complex():
                    each.requires_grad_(True)
        return args, kwargs

    def _step(self, name: str, group: str, input_: str, **more: Any) -> dict[str, Any]:
        number = int(input_.split()[-1]) if input_.startswith("plain") else 1
        seed = self._plan.seeds.setdefault(input_, self._chance.getrandbits(31))
        state, mode = more.get("state", self._state), more.get("mode", "given")
        key = (input_, state, mode)
        known = {(each["input"], each["state"], each["mode"]) for each in self._plan.steps}
        return {
            "name": name,
            "group": group,
            "input": input_,
            "template_seed": self._input_seed(number),
            "needs_template": _needs_template(self._plan.pieces[input_].tree),
            "seed": seed,
            "state": state,
            "set": more.get("set_", "copy"),
            "mode": mode,
            "make": more.get("make", "fresh"),
            "before": more.get("before"),
            "after": more.get("after"),
            "same_as": more.get("same_as"),
            "asks_for_gradients": more.get("asks_for_gradients", self._asks),
            "has_backward": more.get("has_backward", self._target.kind != "step"),
            "is_close": more.get("is_close", True),
            "is_distinct": key not in known,
            "is_repeat": more.get("is_repeat", False),
        }


def prepare(target: Target, request: dict[str, Any], tell: _Tell) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Plan a comparison by trying it on the baseline, in a worker of its own: hidden state that this changes ends with it.

    Args:
        target: The baseline.
        request: `seed`; `train`: whether inputs ask for gradients; `budget_s` and `budget_bytes` for all of it.
        tell: Told what is tried.

    Returns:
        A few words (`steps`, `refused`, `missing`), and the descriptor of the plan's bundle: inputs and states of parameters, none of
        what the baseline returned, so that the candidate may see it.

    Raises:
        TargetError: The inputs cannot be given to another process.
    """
    return _Planner(target, request, tell).make()


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer; zero never does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _needs_template(node: dict[str, Any]) -> bool:
    if node["kind"] in {"sequence", "mapping", "record", "opaque"}:
        return True
    return any(_needs_template(each) for each in node.get("items", ()))


def _working(pieces: dict[str, Piece]) -> str:
    """Return the first floating-point dtype among the inputs, else among the parameters: random numbers are drawn in it."""
    for name in ("plain 1", "state 0"):
        for record in pieces[name].tensors if name in pieces else ():
            if record["dtype"] in {"float16", "bfloat16", "float32", "float64"}:
                return str(record["dtype"])
    return str(torch.get_default_dtype()).removeprefix("torch.")
