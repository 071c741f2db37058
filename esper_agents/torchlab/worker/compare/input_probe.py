"""Probe the baseline with inputs to find those it accepts and those it rejects."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from typing import TYPE_CHECKING, Any

from ..target import module_state as parameters
from ..target.backward import run_backward
from ..target.call_results import described
from ..target.pytrees import tensors_of
from . import background_work as aftermath
from .call_modes import called_in
from .result import BaselineRefusal
from .tensor_bytes import address
from .tensor_variants import gradient_layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from ..target.target import LoadedTarget
    from .plan_step import PlannedStep
    from .tensor_bundle import Piece

Inputs = tuple[Any, dict[str, Any]]
_PLACEHOLDERS = {"sequence", "mapping", "record", "opaque"}


class _TooLongError(BaseException):
    """Timeout of a call; not an `Exception`, so that user code cannot catch it as one."""


class Probe:
    """Baseline with inputs to try.

    Attributes:
        target: The baseline.
        pieces: Inputs and states by name.
        ends: Deadline, by the monotonic clock.
    """

    def __init__(self, target: LoadedTarget, pieces: dict[str, Piece], ends: float) -> None:
        """Create a probe of a baseline."""
        self.target, self.pieces, self.ends = target, pieces, ends

    def run(self, step: PlannedStep) -> tuple[Any, Inputs]:
        """Run the baseline on a step's inputs; return its output and its arguments.

        Args:
            step: A step of a plan.

        Raises:
            Exception: Any exception of the baseline.
        """
        args, kwargs = inputs = self.inputs(step)
        module = self.target.module
        if module is not None and step.state is not None:
            values = parameters.prepared(self.pieces[step.state].restore(), is_wide=False)
            everything = parameters.Matching({name: name for name in parameters.state_of(module)})
            parameters.write(module, everything, values, step.set)
        aftermath.seed(step.seed)
        # Time on the baseline's own inputs is not limited.
        seconds = max(self.ends - time.monotonic(), 1.0) if step.group != "plain" else 0.0
        with _at_most(seconds), called_in(step.mode, module):
            given = self.target.call(*args, **kwargs)
            if step.has_backward:
                run_backward(module, None, given, inputs, step.seed, layout=gradient_layout(step.name, step.group))
        return given, inputs

    def refusal(self, step: PlannedStep) -> BaselineRefusal | None:
        """Return the baseline's error for a step's inputs; None if it accepts them."""
        try:
            self.run(step)
        except _TooLongError:
            return BaselineRefusal(step.name, "TimeoutError", "it takes too long", is_deliberate=False)
        except Exception as error:  # noqa: BLE001 - the baseline's error is recorded, whatever its type
            raised = described(self.target, error)
            return BaselineRefusal(
                step.name, raised.type, raised.message, raised.is_deliberate, raised.file, raised.line
            )
        return None

    def inputs(self, step: PlannedStep) -> Inputs:
        """Return a step's inputs, newly made."""
        template = None
        if step.needs_template:
            made = self.target.inputs(step.template_seed)
            template = (made.args, made.kwargs)
        args, kwargs = self.pieces[step.input].restore(template)
        if step.asks_for_gradients:
            for each in tensors_of((args, kwargs)):
                if each.is_floating_point() or each.is_complex():
                    each.requires_grad_(True)
        return args, kwargs

    def ownership(self, step: PlannedStep) -> dict[str, bool]:
        """Return whether a caller may write into outputs and inputs without changing the target's own data.

        Args:
            step: A step that the baseline accepts.

        Returns:
            `outputs`, `inputs`, `is_same`: whether it returns the same for the same inputs a second time, and
            `has_history`: whether a call changes the target's own data.
        """
        from .tensor_bundle import capture

        given, inputs = self.run(step)
        before = capture(given)
        again, _ = self.run(step)
        module = self.target.module
        state = list(parameters.state_of(module).values()) if module is not None else []
        was = self.pieces[step.state] if module is not None and step.state is not None else capture({})
        now = capture(parameters.state_of(module)) if module is not None and step.state is not None else was
        outputs, later = _spans(given), _spans(again)
        is_shared = _overlap(outputs, _spans(inputs) + _spans(state))
        return {
            "outputs": bool(outputs) and not is_shared and not _overlap(outputs, later),
            "inputs": bool(_spans(inputs)) and not is_shared,
            "is_same": capture(again) == before,
            "has_history": now.digest() != was.digest(),
        }


def needs_template(node: dict[str, Any]) -> bool:
    """Return whether a description contains parts that only a live example can reproduce."""
    return node["kind"] in _PLACEHOLDERS or any(needs_template(each) for each in node.get("items", ()))


def chance_of(seed: int) -> random.Random:
    """Return the generator of a plan's random choices."""
    return random.Random(seed)  # noqa: S311 - a design, not a secret


def _spans(thing: Any) -> list[tuple[int, int]]:
    return [span for each in tensors_of(thing) if (span := address(each)) is not None]


def _overlap(ones: list[tuple[int, int]], others: list[tuple[int, int]]) -> bool:
    return any(one[0] < other[1] and other[0] < one[1] for one in ones for other in others)


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Interrupt a block after a time; zero means no limit."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
