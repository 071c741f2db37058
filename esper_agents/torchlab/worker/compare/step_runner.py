"""Run a target step by step and record everything that is visible from outside after each step."""

from __future__ import annotations

import contextlib
import copy
import gc
import random
from typing import TYPE_CHECKING, Any

import torch

from ..target import module_state as parameters
from ..target.backward import run_backward
from ..target.call_results import described, overwrite, reused
from ..target.pytrees import tensors_of
from . import background_work as aftermath
from .call_modes import COPY, OTHER_THREAD, called_in, in_another_thread
from .float64_reference import Float64Mode, eagerly, widen
from .plan_step import ObservedEnd, ObservedStep, PlannedStep
from .rounding_noise import RoundingNoiseMode, jitter
from .step_state import Sequence
from .tensor_bundle import Bundle, Piece, capture, write
from .tensor_bytes import address
from .tensor_variants import gradient_layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..target.target import LoadedTarget

_LARGE_STATE = 16 << 20


class Stage:
    """Target and plan, ready to run step by step."""

    def __init__(
        self, target: LoadedTarget, plan: Bundle, *, is_wide: bool = False, jitter_seed: int | None = None
    ) -> None:
        """Prepare the target and load the baseline's parameters into it as far as they match.

        Args:
            target: The target.
            plan: Bundle written by `test_plan.prepare`.
            is_wide: Run in float64.
            jitter_seed: Seed for perturbing every floating-point input, parameter and result by rounding noise.
        """
        self.target, self.plan = target, plan
        self._is_wide, self._jitter_seed = is_wide, jitter_seed
        self._sequence = Sequence()
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
        """Return a separate seed for each source of noise: equal ones would cancel."""
        return random.Random(f"{self._jitter_seed} {what}").getrandbits(31)  # noqa: S311 - noise, not a secret

    def _values(self, name: str) -> dict[str, torch.Tensor]:
        values = self.plan.pieces[name].restore()
        if self._jitter_seed is not None:
            values = jitter(values, self._noise(name))
        return parameters.prepared(values, is_wide=self._is_wide)

    def run(self, number: int, step: PlannedStep) -> ObservedStep:
        """Run one step and return its observations.

        Args:
            number: Number of the step in the plan.
            step: The step.
        """
        if step.before == "overwrite outputs":
            overwrite(self._sequence.given)
            self._sequence.kept = [each for each in self._sequence.kept if each.step != number - 1]
        self._set_state(step)
        inputs = self._inputs(step)
        before = capture(inputs, is_whole=True)
        aftermath.seed(step.seed)
        try:
            # Outside of the modes of other runs, which change how a copy is made.
            call = self._callee(step)
        except Exception as error:  # noqa: BLE001 - the user's class may say what a copy of it is
            return ObservedStep(step.name, described(self.target, error))
        with self._precision(step.name):
            modes, clocks = aftermath.modes(), aftermath.clocks_ns()
            try:
                given = self._call(step, call, *inputs)
            except BaseException as error:  # noqa: BLE001 - any error of user code is an observation
                self._sequence.held = None
                return ObservedStep(step.name, described(self.target, error))
            # Before anything else: output that appears after a call returned was not returned by it.
            output = capture(given)
            if step.is_repeat:
                self._count(clocks)
            seen = self._look(number, step, given, output, inputs)
            if aftermath.modes() != modes:
                seen.modes = "it leaves a mode of torch on that rewrites operations"
            if step.is_close and step.after != "overwrite inputs":
                self._effects(seen, number, before, inputs)
            if step.has_backward:
                self._gradients(seen, number, step, given, inputs)
        self._sequence.remember(number, given, output, inputs)
        return seen

    def _count(self, before: tuple[int, int]) -> None:
        after = aftermath.clocks_ns()
        self._sequence.own_ns += after[0] - before[0]
        self._sequence.others_ns += after[1] - before[1]

    def _look(
        self, number: int, step: PlannedStep, given: Any, output: Piece, inputs: tuple[Any, dict[str, Any]]
    ) -> ObservedStep:
        """Return the observations of an output, now and after a pause."""
        seen = ObservedStep(step.name, output=self._sequence.keep(number, step, output))
        seen.generators = aftermath.generators() if step.is_close else {}
        seen.relations = self._relations(given, inputs)
        if step.after == "watch":
            seen.work_while_idle_ns = aftermath.work_while_idle_ns()
        if step.after == "overwrite inputs":
            overwrite(inputs)
            aftermath.work_while_idle_ns(1)
        if step.after and capture(given) != output:
            seen.is_unfinished = True
        return seen

    @contextlib.contextmanager
    def _precision(self, step: str) -> Iterator[None]:
        if self._is_wide:
            with eagerly(), Float64Mode(getattr(torch, self.plan.about["working"])):
                yield
        elif self._jitter_seed is not None:
            with eagerly(), RoundingNoiseMode(self._noise(step)):
                yield
        else:
            yield

    def _call(self, step: PlannedStep, call: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        gc.collect(0)
        # The modes of runs with other numbers hold for their own thread.
        is_apart = step.mode == OTHER_THREAD and not self._is_wide and self._jitter_seed is None
        with called_in(step.mode, self.target.module):
            return in_another_thread(lambda: call(*args, **kwargs)) if is_apart else call(*args, **kwargs)

    def _callee(self, step: PlannedStep) -> Any:
        """Return what a step calls: the target, or a copy of its module whose parameters have changed since."""
        module = self.target.module
        if step.mode != COPY or module is None or self.matching is None:
            return self.target.call
        copied = copy.deepcopy(module)
        parameters.write(copied, self.matching, self._values("state 1"), "copy")
        return copied

    def finish(self) -> ObservedEnd:
        """Return the final observations: outputs that changed later, and the process state."""
        changed = [each.step for each in self._sequence.kept if capture(each.given) != each.piece]
        return ObservedEnd(
            changed,
            self._sequence.own_ns,
            self._sequence.others_ns,
            aftermath.has_children(),
            aftermath.work_while_idle_ns(),
        )

    def bundle(self, about: dict[str, Any]) -> int:
        """Return the descriptor of a bundle with all observations."""
        return write(self._sequence.pieces, about)

    def _inputs(self, step: PlannedStep) -> tuple[Any, dict[str, Any]]:
        piece = self.plan.pieces[step.input]
        template = None
        if step.needs_template:
            made = self.target.inputs(step.template_seed)
            template = (made.args, made.kwargs)
        fresh = piece.restore(template)
        if self._jitter_seed is not None:
            fresh = jitter(fresh, self._noise(step.input))
        if self._is_wide:
            fresh = widen(fresh)
        if step.asks_for_gradients:
            for each in tensors_of(fresh):
                if each.is_leaf and (each.is_floating_point() or each.is_complex()):
                    each.requires_grad_(True)
        if step.make != "fresh" and self._sequence.last is not None:
            fresh = reused(self._sequence.last, fresh, is_new_object=step.make == "same memory")
        return fresh[0], fresh[1]

    def _set_state(self, step: PlannedStep) -> None:
        module, name = self.target.module, step.state
        if module is None or self.matching is None or name is None:
            return
        if self._sequence.held != name or step.set != "copy":
            parameters.write(module, self.matching, self._values(name), step.set)
            self._hold(name)

    def _hold(self, name: str) -> None:
        self._sequence.held = name
        self._sequence.held_piece = self._state()

    def _state(self) -> Piece | None:
        """Return the matched parameters and buffers as they are now; None if they are too large to copy."""
        if self.target.module is None or self.matching is None:
            return None
        own = parameters.state_of(self.target.module)
        if not own or sum(each.nbytes for each in own.values()) > _LARGE_STATE:
            return None
        return capture({theirs: own[mine] for theirs, mine in self.matching.names.items() if mine in own})

    def _relations(self, given: Any, inputs: tuple[Any, dict[str, Any]]) -> list[list[Any]]:
        """Return the tensors with which the output shares memory."""
        others: list[tuple[list[Any], torch.Tensor]] = [
            (["input", index], each) for index, each in enumerate(tensors_of(inputs))
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

    def _effects(self, seen: ObservedStep, number: int, before: Piece, inputs: tuple[Any, dict[str, Any]]) -> None:
        """Record the inputs and parameters after the step."""
        pieces = self._sequence.pieces
        after = capture(inputs, is_whole=True)
        if after != before:
            seen.inputs_after = f"inputs after {number}"
            pieces[seen.inputs_after] = after
        now = self._state()
        if now is not None:
            seen.state_after = f"state after {number}"
            pieces[seen.state_after] = now
        if now is None or now != self._sequence.held_piece:
            self._sequence.held = None
            seen.changes_state = now is not None

    def _gradients(
        self, seen: ObservedStep, number: int, step: PlannedStep, given: Any, inputs: tuple[Any, dict[str, Any]]
    ) -> None:
        try:
            gradients = run_backward(
                self.target.module,
                self.matching,
                given,
                inputs,
                step.seed,
                layout=gradient_layout(step.name, step.group),
            )
        except BaseException as error:  # noqa: BLE001 - the user's backward is observed like the user's forward
            seen.backward_raised = described(self.target, error)
            return
        if gradients is not None:
            seen.gradients = f"gradients {number}"
            self._sequence.pieces[seen.gradients] = capture(gradients)
