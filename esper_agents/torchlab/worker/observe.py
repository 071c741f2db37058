"""Runs a target through the steps of a plan and records everything that anybody outside of it can see."""

from __future__ import annotations

import contextlib
import ctypes
import linecache
import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from . import aftermath, parameters
from .bundle import Bundle, Piece, address, capture, write
from .culprits import is_by_user, replaced_of_ours
from .gradients import run_backward
from .precision import Shaken, Widened, eagerly, jitter, widen
from .structure import describe, rebuild, tensors_of
from .target import Target

_Tell = Callable[[str, float], None]
# Of the outputs of earlier calls, so many bytes are kept to see whether a later call changes them.
_MOST_KEPT = 256 << 20
_LARGE_STATE = 16 << 20
_memmove = ctypes.memmove


@dataclass
class _Kept:
    step: int
    given: Any
    piece: Piece
    spans: list[tuple[int, int]]


@dataclass
class _Sequence:
    """What lasts from one step of a plan to the next.

    Attributes:
        last: Inputs of the last step.
        given: What the last step returned.
        kept: Outputs of earlier steps, still alive.
        kept_bytes: Their size.
        pieces: What goes into the bundle.
        names: For each step by number, the piece with its output.
        held: The state that the module has as far as is known; None where a call may have changed it.
        held_piece: What it looked like when it was set; None where that was not looked at.
    """

    last: tuple[Any, dict[str, Any]] | None = None
    given: Any = None
    kept: list[_Kept] = field(default_factory=list)
    kept_bytes: int = 0
    pieces: dict[str, Piece] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    held: str | None = None
    held_piece: Piece | None = None


class Stage:
    """A target and a plan, ready to be run step by step."""

    def __init__(self, target: Target, plan: Bundle, *, is_wide: bool = False, jitter_seed: int | None = None) -> None:
        """Prepare the target: its parameters become the baseline's as far as they can.

        Args:
            target: What is run.
            plan: The bundle that `plan.prepare` wrote.
            is_wide: Run in float64.
            jitter_seed: Move every floating-point input, parameter and result as rounding could, at random from this seed.
        """
        self.target, self.plan = target, plan
        self._is_wide, self._jitter_seed = is_wide, jitter_seed
        self._sequence = _Sequence()
        self.matching: parameters.Matching | None = None
        if is_wide:
            torch.set_default_dtype(torch.float64)
        if target.module is not None and "state 0" in plan.pieces:
            if is_wide:
                target.module.to(torch.float64)
            saved = frozenset(plan.about["saved"])
            self.matching = parameters.match(target.module, self._values("state 0"), saved)
            self._hold("state 0")

    def _noise(self, what: str) -> int:
        """Return a seed of its own for each source of noise: equal ones would cancel each other."""
        return random.Random(f"{self._jitter_seed} {what}").getrandbits(31)  # noqa: S311 - noise, not a secret

    def _values(self, name: str) -> dict[str, torch.Tensor]:
        values = self.plan.pieces[name].restore()
        if self._jitter_seed is not None:
            values = jitter(values, self._noise(name))
        return parameters.prepared(values, is_wide=self._is_wide)

    def run(self, number: int, step: dict[str, Any]) -> dict[str, Any]:
        """Run one step and return what was seen.

        Args:
            number: The step's place in the plan.
            step: The step; see `plan`.
        """
        sequence = self._sequence
        if step["before"] == "overwrite outputs":
            _overwrite(sequence.given)
            sequence.kept = [each for each in sequence.kept if each.step != number - 1]
        if self.target.module is not None:
            self._set_state(step)
        args, kwargs = self._inputs(step)
        seen: dict[str, Any] = {"name": step["name"], "is_widened": self._is_wide}
        before = capture((args, kwargs), is_whole=True)
        modes = aftermath.modes()
        aftermath.seed(step["seed"])
        with self._precision(step["name"]):
            try:
                given = self._call(step, args, kwargs)
            except BaseException as error:  # noqa: BLE001 - whatever user code throws is what is observed
                self._sequence.held = None
                return seen | {"raised": described(self.target, error)}
            output = capture(given)
            seen["output"] = self._keep(number, step, output)
            seen["generators"] = aftermath.generators() if step["is_close"] else {}
            if aftermath.modes() != modes:
                seen["modes"] = "it leaves a mode of torch on that rewrites operations"
            seen["relations"] = self._relations(given, args, kwargs)
            if step["after"] == "watch":
                seen["work_while_idle_ns"] = aftermath.work_while_idle_ns()
            if step["after"] == "overwrite inputs":
                _overwrite((args, kwargs))
                aftermath.work_while_idle_ns(1)
            if step["after"] and capture(given) != output:
                seen["is_unfinished"] = True
            if step["is_close"] and step["after"] != "overwrite inputs":
                self._see_effects(seen, number, before, (args, kwargs))
            if step["has_backward"]:
                self._see_gradients(seen, number, step, given, (args, kwargs))
        self._remember(number, given, output, (args, kwargs))
        return seen

    @contextlib.contextmanager
    def _precision(self, step: str) -> Iterator[None]:
        if self._is_wide:
            with eagerly(), Widened(getattr(torch, self.plan.about["working"])):
                yield
        elif self._jitter_seed is not None:
            with eagerly(), Shaken(self._noise(step)):
                yield
        else:
            yield

    def _call(self, step: dict[str, Any], args: Any, kwargs: dict[str, Any]) -> Any:
        module = self.target.module
        if step["mode"] == "given" or module is None:
            return self.target.call(*args, **kwargs)
        # Flags are put back one by one: a frozen part of a module in training stays in evaluation.
        flags = [(each, each.training) for each in module.modules()]
        module.eval()
        try:
            return self.target.call(*args, **kwargs)
        finally:
            for each, flag in flags:
                each.training = flag

    def finish(self) -> dict[str, Any]:
        """Return what can be said once all steps have been run: which earlier outputs changed, and what the process became."""
        changed = [each.step for each in self._sequence.kept if capture(each.given) != each.piece]
        return {
            "changed_outputs": changed,
            "threads": aftermath.threads(),
            "has_children": aftermath.has_children(),
            "work_while_idle_ns": aftermath.work_while_idle_ns(),
        }

    def bundle(self, about: dict[str, Any]) -> int:
        """Return the descriptor of a bundle with everything that was seen."""
        return write(self._sequence.pieces, about)

    def _inputs(self, step: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        piece = self.plan.pieces[step["input"]]
        template = None
        if step["needs_template"]:
            made = self.target.inputs(step["template_seed"])
            template = (made.args, made.kwargs)
        fresh = piece.restore(template)
        if self._jitter_seed is not None:
            fresh = jitter(fresh, self._noise(step["input"]))
        if self._is_wide:
            fresh = widen(fresh)
        if step["asks_for_gradients"]:
            for each in tensors_of(fresh):
                if each.is_leaf and (each.is_floating_point() or each.is_complex()):
                    each.requires_grad_(True)
        if step["make"] != "fresh" and self._sequence.last is not None:
            fresh = _reused(self._sequence.last, fresh, is_new_object=step["make"] == "same memory")
        return fresh[0], fresh[1]

    def _set_state(self, step: dict[str, Any]) -> None:
        module, name = self.target.module, step["state"]
        if module is None or self.matching is None or name is None:
            return
        if self._sequence.held != name or step["set"] != "copy":
            parameters.write(module, self.matching, self._values(name), step["set"])
            self._hold(name)

    def _hold(self, name: str) -> None:
        self._sequence.held = name
        self._sequence.held_piece = self._state()

    def _state(self) -> Piece | None:
        """Return the matched parameters and buffers as they are now; None where they are too many to look at each time."""
        if self.target.module is None or self.matching is None:
            return None
        own = parameters.state_of(self.target.module)
        if sum(each.nbytes for each in own.values()) > _LARGE_STATE:
            return None
        return capture({theirs: own[mine] for theirs, mine in self.matching.names.items() if mine in own})

    def _keep(self, number: int, step: dict[str, Any], piece: Piece) -> str:
        """Return the name of the piece that holds an output: an earlier one of the same inputs where it is the same."""
        sequence = self._sequence
        earlier = sequence.names.get(step["same_as"]) if step["same_as"] is not None else None
        if earlier is not None and sequence.pieces[earlier] == piece:
            name = earlier
        else:
            name = f"output {number}"
            sequence.pieces[name] = piece
        sequence.names[number] = name
        return name

    def _relations(self, given: Any, args: Any, kwargs: Any) -> list[list[Any]]:
        """Return with what else the output shares memory."""
        others: list[tuple[list[Any], torch.Tensor]] = [
            (["input", index], each) for index, each in enumerate(tensors_of((args, kwargs)))
        ]
        if self.target.module is not None:
            ours = {mine: theirs for theirs, mine in self.matching.names.items()} if self.matching else {}
            state = parameters.state_of(self.target.module)
            others += [(["state", ours.get(name, f"its own {name}")], each) for name, each in state.items()]
        spans = [(what, span) for what, each in others if (span := address(each)) is not None]
        spans += [(["earlier output", kept.step], span) for kept in self._sequence.kept for span in kept.spans]
        relations = []
        for index, each in enumerate(tensors_of(given)):
            span = address(each)
            if span is not None:
                relations += [[index, *what] for what, other in spans if span[0] < other[1] and other[0] < span[1]]
        return relations

    def _see_effects(self, seen: dict[str, Any], number: int, before: Piece, inputs: Any) -> None:
        after = capture(inputs, is_whole=True)
        if after != before:
            seen["inputs_after"] = f"inputs after {number}"
            self._sequence.pieces[seen["inputs_after"]] = after
        now = self._state()
        if now is not None:
            seen["state_after"] = name = f"state after {number}"
            self._sequence.pieces[name] = now
        if now is None or now != self._sequence.held_piece:
            self._sequence.held = None

    def _see_gradients(self, seen: dict[str, Any], number: int, step: dict[str, Any], given: Any, inputs: Any) -> None:
        try:
            gradients = run_backward(self.target.module, self.matching, given, inputs, step["seed"])
        except BaseException as error:  # noqa: BLE001 - the user's backward is observed like the user's forward
            seen["backward_raised"] = described(self.target, error)
            return
        if gradients is not None:
            seen["gradients"] = f"gradients {number}"
            self._sequence.pieces[seen["gradients"]] = capture(gradients)

    def _remember(self, number: int, given: Any, output: Piece, inputs: tuple[Any, dict[str, Any]]) -> None:
        sequence = self._sequence
        sequence.last, sequence.given = inputs, given
        if sequence.kept_bytes + output.nbytes() <= _MOST_KEPT:
            sequence.kept_bytes += output.nbytes()
            spans = [span for each in tensors_of(given) if (span := address(each)) is not None]
            sequence.kept.append(_Kept(number, given, output, spans))


def observe(target: Target, request: dict[str, Any], tell: _Tell) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Run a target through a plan.

    Args:
        target: The baseline or the candidate.
        request: `files`: the descriptor of the plan; `precision`: `float64` for a reference run; `jitter`: the seed of a run on
            inputs an ulp away; `distinct`: of steps on the same inputs and state only the first, where the target keeps nothing
            from one call to the next.
        tell: Told which step is run, before it is: where a target hangs, that is where.

    Returns:
        A few words, and the descriptor of the observation's bundle.
    """
    plan = Bundle(request["files"][0])
    stage = Stage(target, plan, is_wide=request.get("precision") == "float64", jitter_seed=request.get("jitter"))
    steps = list(enumerate(plan.about["steps"]))
    if request.get("distinct") and plan.about["is_stateless"]:
        steps = [(number, each) for number, each in steps if each["is_distinct"]]
    threads, seen = aftermath.threads(), {}
    for count, (number, step) in enumerate(steps):
        tell(f"{step['name']}", count / len(steps))
        if not _is_possible(step, stage.matching):
            continue
        seen[str(number)] = stage.run(number, step)
    about = {
        "steps": seen,
        "end": stage.finish(),
        "threads_at_start": threads,
        "parameters": stage.matching.described() if stage.matching is not None else None,
        "file": own_path(target),
        **_global_state(target, request["scratch"]),
    }
    return {"steps": len(seen), "parameters": about["parameters"]}, (stage.bundle(about),)


def own_path(target: Target) -> str:
    """Return where the file lies that a target stands in: two targets of one file run each other's module code."""
    return f"{target.root}/{target.file}" if target.file is not None else ""


def _global_state(target: Target, scratch: str) -> dict[str, Any]:
    from . import fingerprint

    state = fingerprint.global_state()
    ours = replaced_of_ours()
    return {
        "after": {**state["flags"], **aftermath.surroundings(scratch)},
        "replaced": {**state["replaced"], **ours},
        "replaced_by_user": [*ours, *(name for name in state["replaced"] if is_by_user(target, name))],
    }


def _is_possible(step: dict[str, Any], matching: parameters.Matching | None) -> bool:
    """Return whether a step can be run: parameters can only be changed where all of them have their counterpart."""
    return step["group"] != "parameters" or (matching is not None and not matching.unmatched)


def described(target: Target, error: BaseException) -> dict[str, Any]:
    """Return an exception as results hold it: `type`, `message`, `file`, `line`, and whether the user's code raised it itself."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [(file, each) for each in frames if (file := target.in_project(each.filename)) is not None]
    last = frames[-1] if frames else None
    line = linecache.getline(last.filename, last.lineno or 0).strip() if last is not None else ""
    is_own = last is not None and target.in_project(last.filename) is not None
    return {
        "type": type(error).__name__,
        "message": (str(error).splitlines() or [""])[0][:300],
        "file": own[-1][0] if own else None,
        "line": own[-1][1].lineno if own else None,
        "is_deliberate": is_own and line.startswith("raise"),
    }


def _overwrite(thing: Any) -> None:
    """Write other numbers over every tensor of a nest, as whoever owns them may."""
    with torch.no_grad():
        for each in tensors_of(thing):
            if type(each) not in (torch.Tensor, torch.nn.Parameter):
                continue
            with contextlib.suppress(RuntimeError):
                each.detach().fill_(float("nan") if each.is_floating_point() else 1)


def _reused(last: Any, fresh: Any, *, is_new_object: bool) -> Any:
    """Return the last inputs with the numbers of fresh ones in them.

    Args:
        last: Inputs of the last call.
        fresh: Inputs of the same shapes.
        is_new_object: Make new tensors on the old memory, written past torch, as loaders do that fill a buffer.
    """
    tensors: list[torch.Tensor] = []
    node = describe(last, tensors)
    made = []
    for old, new in zip(tensors, tensors_of(fresh), strict=True):
        span = address(new)
        if is_new_object:
            made.append(old.detach().requires_grad_(new.requires_grad))
            if span is not None and new.is_contiguous() and old.is_contiguous() and old.device.type == "cpu":
                _memmove(old.data_ptr(), new.data_ptr(), span[1] - span[0])
                continue
        else:
            made.append(old)
        with torch.no_grad():
            old.detach().copy_(new)
    return rebuild(node, made, last)
