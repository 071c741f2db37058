"""Runs of a target with the arguments of a plan."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import signal
import traceback
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .guesses import first_layer_shape, guessed, parameters, sizes_of
from .plan import BOOL, LONG, CallPlan, Expression, TensorPlan, source
from .repairs import named_setting, setting
from .usage import ParameterUse, uses_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .plan import Argument, Arguments

_MOST_TEXT = 300
_PARAMETERS = "[torch.randn((16, 8)), torch.randn((8,))]"
_MOST_SETTINGS = 60
_MOST_SHOWN = 4
_DEEPEST_SHOWN = 2


class RunTimeoutError(BaseException):
    """A run took too long; no code of the user catches it with `except Exception`."""


class Settings:
    """Configuration object whose attributes are guessed when they are first missing."""

    def __init__(self, **attributes: Any) -> None:
        """Store the attributes."""
        vars(self).update(attributes)

    def __getitem__(self, name: str) -> Any:
        """Return an attribute."""
        return getattr(self, name)


@dataclass
class SearchRun:
    """One run of the target.

    Attributes:
        plan: The arguments.
        stage: `make` or `call`, where it failed; empty if it returned.
        error: Type and message of the exception; empty if it returned.
        output: Description of the result.
    """

    plan: CallPlan
    stage: str
    error: str
    output: str = ""


class PlanRunner:
    """Runner of the plans of one target.

    Attributes:
        target: A class, a function, or an unbound method.
        made_from: Class of which an object is created first; None for a function.
        seconds: Time limit of one run.
        is_used: Whether the last run used the object of an earlier one.
    """

    def __init__(
        self,
        target: Any,
        *,
        owner: Any = None,
        seconds_a_run: float = 5.0,
        shape: tuple[int, ...] = (),
        first: CallPlan | None = None,
        saved: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Prepare the runs.

        Args:
            target: A class, a function, or an unbound method.
            owner: Class of an unbound method, of which an object is created first.
            seconds_a_run: Time limit of one run.
            shape: Shape of the first tensor of the first call; guessed if empty.
            first: Known arguments of the first plan; required ones that it omits are guessed.
            saved: Captured tensors, by name.
        """
        self._shape = shape
        self.made_from = owner if owner is not None else target if inspect.isclass(target) else None
        self.target = target
        self.seconds = seconds_a_run
        self._known = first or CallPlan()
        self._saved = dict(saved or {})
        self._object: tuple[str, Any] = ("", None)
        self.is_used = False

    @property
    def callee(self) -> Any:
        """The function, or the object of the constructor or its method; None before there is one."""
        if self.made_from is None:
            return self.target
        made = self._object[1]
        return made if made is None or self.made_from is self.target else getattr(made, self.target.__name__, None)

    def forget(self) -> None:
        """Create the object of the constructor again in the next run."""
        self._object = ("", None)

    def first(self) -> CallPlan:
        """Return the first plan: known arguments, and guesses for the others."""
        if self.made_from is None:
            return self._shaped(CallPlan((), _completed(self._known.call, guessed(self.target))), self.target)
        known = self._known.make
        if issubclass(self.made_from, torch.optim.Optimizer) and "params" not in {name for name, _ in known}:
            known = (("params", Expression(_PARAMETERS)), *known)
        return CallPlan(_completed(known, guessed(self.made_from, depth=1)))

    def _shaped(self, plan: CallPlan, callee: Any) -> CallPlan:
        """Return a plan whose first tensor of the call has the given shape, and the others its first size."""
        tensors = {name: each for where, name, each in plan.tensors() if where == "call"}
        if not self._shape or not tensors:
            return plan
        first = next((name for name in positional_names(callee) if name in tensors), next(iter(tensors)))
        before = tensors[first].shape[:1]
        for name, each in tensors.items():
            if name == first:
                plan = plan.with_argument("call", name, replace(each, shape=self._shape))
            elif each.shape[:1] == before:
                plan = plan.with_argument("call", name, each.sized(0, self._shape[0]))
        return plan

    def run(self, plan: CallPlan, seconds: float) -> tuple[SearchRun, BaseException | None, Any]:
        """Run a plan; return the run, its exception if it raised one, and the output."""
        stage, process = "make", os.getpid()
        try:
            with _limited(seconds), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.manual_seed(0)
                callee = self.target
                if self.made_from is not None:
                    plan, made = self._made(plan)
                    callee = made if self.made_from is self.target else getattr(made, self.target.__name__)
                stage = "call"
                if self.made_from is not None and not plan.call:
                    inputs = _completed(self._known.call, self._inputs(callee))
                    plan = self._shaped(CallPlan(plan.make, inputs), callee)
                torch.manual_seed(0)
                output = _call(callee, plan.call, self._saved)
                run = SearchRun(plan, "", "", describe(output))
        except RunTimeoutError as error:
            self.forget()
            return SearchRun(plan, stage, f"no result within {seconds:.3g} s"), error, None
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
            return SearchRun(plan, stage, described_error(error)), error, None
        finally:
            if os.getpid() != process:
                # A child that the target forked must not continue the search.
                os._exit(0)
        return run, None, output

    def _made(self, plan: CallPlan) -> tuple[CallPlan, Any]:
        """Return the object of the constructor, and the plan with the settings that it read."""
        for _ in range(_MOST_SETTINGS):
            text = source(plan.make)
            if self._object[0] == text and self._object[1] is not None:
                self.is_used = True
                return plan, self._object[1]
            self.is_used = False
            try:
                made = _call(self.made_from, plan.make, self._saved)
            except AttributeError as error:
                changed = with_setting(plan, named_setting(error)) if named_setting(error) else None
                if changed is None:
                    raise
                plan = changed
                continue
            self._object = (text, made)
            return plan, made
        raise TypeError("the configuration has too many settings")

    @staticmethod
    def _inputs(callee: Any) -> Iterator[tuple[str, Argument]]:
        """Yield first inputs of an object: the first layer decides a shape that the names do not."""
        taken = callee.forward if isinstance(callee, nn.Module) else callee
        layer = first_layer_shape(callee) if isinstance(callee, nn.Module) else None
        uses = uses_of(callee)
        for place, (name, argument) in enumerate(guessed(taken)):
            is_plain = isinstance(argument, TensorPlan) and argument.kind != BOOL and not argument.copies
            is_layer = layer is not None and (
                (is_plain and (place == 0 or argument.kind != LONG))  # type: ignore[union-attr] # a tensor is plain
                or (isinstance(argument, Expression) and place == 0)
            )
            yield name, _fitted(layer, uses.get(name)) if is_layer and layer is not None else argument

    def trains(self, output: Any) -> tuple[bool, str]:
        """Return whether a gradient flows back from the output, and the exception of backward."""
        many = output if isinstance(output, (tuple, list)) else [output]
        roots = [each for each in many if isinstance(each, torch.Tensor) and each.requires_grad]
        roots = [root for root in roots if root.is_floating_point()]
        if not roots:
            return False, ""
        try:
            with _limited(self.seconds), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
        except RunTimeoutError:
            return False, f"no result within {self.seconds:.3g} s"
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            return False, described_error(error)
        return True, ""


def _fitted(layer: TensorPlan, use: ParameterUse | None) -> TensorPlan:
    """Return the input of a layer with the number of dimensions that the source unpacks."""
    if use is None or not use.shape or len(use.shape) == len(layer.shape):
        return layer
    sizes = list(sizes_of(use.shape))
    is_image = len(layer.shape) > 3  # noqa: PLR2004 - batch, channels, height and width
    channels = [at for at, name in enumerate(use.shape) if name.lower() in {"c", "ch", "channels"}]
    sizes[(channels or [min(1, len(sizes) - 1)])[0] if is_image else -1] = layer.shape[1 if is_image else -1]
    return replace(layer, shape=tuple(sizes))


def positional_names(callee: Any) -> list[str]:
    """Return the names of the parameters that can be passed by position."""
    try:
        known = parameters(callee.forward if isinstance(callee, nn.Module) else callee)
    except (TypeError, ValueError):
        return []
    return [each.name for each, _ in known if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def _completed(known: Arguments, guesses: Iterator[tuple[str, Argument]]) -> Arguments:
    """Return known arguments, and guesses for the others."""
    names = {name for name, _ in known}
    return (*known, *(guess for guess in guesses if guess[0] not in names))


def _call(callee: Any, arguments: Arguments, saved: Mapping[str, torch.Tensor]) -> Any:
    values = {name: _value(each, saved) for name, each in arguments}
    positional = []
    for positional_name in positional_names(callee):
        if positional_name not in values:
            break
        positional.append(values.pop(positional_name))
    # The rest of a variable number of positional arguments, as a captured call has it.
    positional += [values.pop(name) for name in list(values) if re.fullmatch(r"argument_\d+", name)]
    return callee(*positional, **values)


def _value(argument: Argument, saved: Mapping[str, torch.Tensor]) -> Any:
    names: dict[str, Any] = {"torch": torch, "nn": nn, "Settings": Settings}
    names["captured"] = lambda name: saved[name].clone()
    for module, name in argument.imports:
        names[name] = getattr(importlib.import_module(module), name)
    return eval(argument.text, names)  # noqa: S307 - our own expressions, in the sandbox


def with_setting(plan: CallPlan, name: str) -> CallPlan | None:
    """Return a plan whose configuration has one more attribute; None if there is no configuration."""
    for stage in ("make", "call"):
        for where, value in getattr(plan, stage):
            if isinstance(value, Expression) and value.text.startswith("Settings("):
                inner = value.text[len("Settings(") : -1]
                more = f"{inner}, " if inner else ""
                return plan.with_argument(stage, where, Expression(f"Settings({more}{name}={setting(name).text})"))
    return None


def describe(output: Any, depth: int = 0) -> str:
    """Return a result in words, such as `Tensor(2, 10) float32`."""
    if isinstance(output, torch.Tensor):
        return f"Tensor{tuple(output.shape)} {str(output.dtype).removeprefix('torch.')}"
    if isinstance(output, (tuple, list)) and depth < _DEEPEST_SHOWN:
        inner = ", ".join(describe(each, depth + 1) for each in output[:_MOST_SHOWN])
        return f"{type(output).__name__}({inner}{', ...' if len(output) > _MOST_SHOWN else ''})"
    if isinstance(output, dict) and depth < _DEEPEST_SHOWN:
        shown = list(output.items())[:_MOST_SHOWN]
        return "dict(" + ", ".join(f"{name}={describe(each, depth + 1)}" for name, each in shown) + ")"
    return type(output).__name__


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `RunTimeoutError` in the block after some time, and again every half second until it ends."""

    def stop(_number: int, _frame: object) -> None:
        raise RunTimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def described_error(error: BaseException) -> str:
    """Return the type and the message of an exception in one line; without a message, where it was raised."""
    if not str(error).strip():
        return f"{type(error).__name__} without a message{_raised_in(error)}"
    return re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:_MOST_TEXT]


def _raised_in(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f", raised in {frames[-1].name} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
