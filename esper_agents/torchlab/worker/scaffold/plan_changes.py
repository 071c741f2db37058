"""Changes of a plan for an exception, from its message and from the source of the target."""

from __future__ import annotations

import contextlib
import enum
import inspect
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

from torch import nn

from .guesses import concrete, construction, documentation_of, guess, is_abstract, parameters
from .plan import CallPlan, Expression
from .plan_runs import RunTimeoutError, with_setting
from .repairs import named_setting, repairs
from .usage import ParameterUse, uses_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .plan import Argument
    from .plan_runs import PlanRunner

_MOST_SIBLINGS = 6
# A name under so many letters is a word of the message unless it is quoted.
_SHORT = 4
_MOST_TEXTS = 4
# A wrapped module of torch is called in a way that it does not support.
_WRAPS = re.compile(
    r"'(?:Linear|ReLU|ModuleList|MSELoss|builtin_function_or_method)' object|(?:Linear|MSELoss|ReLU)\.forward\(\)|"
    r"supported for (?:Linear|MSELoss)"
)
_DEPTHS = re.compile(r"layers|depth|blocks|repeats|num_res")


class PlanChanges:
    """Changes of the plans of one target."""

    def __init__(self, runner: PlanRunner) -> None:
        """Prepare changes for the target of a runner, whose object they may inspect."""
        self._runner = runner

    def of(self, plan: CallPlan, error: BaseException, stage: str) -> Iterator[CallPlan]:
        """Yield changed plans for an exception, the most promising first."""
        text = str(error)
        if (missing := named_setting(error)) and (changed := with_setting(plan, missing)):
            yield changed
            return
        if isinstance(error, RunTimeoutError):
            yield from self._smaller(plan, stage)
        line = _failing_line(error, self._sources())
        optional = self._optional(plan, stage, text)
        # With None in the message, one of them is needed after all.
        needed = {name for name in optional if "NoneType" in text or re.search(rf"(?<!\w){name}(?!\w)", text)}
        yield from (plan.with_argument(stage, name, optional[name]) for name in optional if name in needed)
        yield from _of_enumeration(plan, error, self._sources())
        yield from self._of_checked_type(plan, stage)
        if _WRAPS.search(text):
            yield from self._wrapped(plan, stage)
        about = [
            (where, name)
            for where in ("make", "call")
            for name, _ in getattr(plan, where)
            if re.search(rf"[`'\"]{re.escape(name)}\b" if len(name) < _SHORT else rf"\b{re.escape(name)}\b", text)
            or (where == stage and re.search(rf"(?<![\w.]){re.escape(name)}\b", line))
        ]
        found = list(repairs(plan, error, stage, line))
        yield from sorted(found, key=lambda each: not _changes_any(plan, each, about))
        yield from (plan.with_argument(stage, name, optional[name]) for name in optional if name not in needed)
        for name, use in self._uses(stage).items():
            choices = list(use.texts)[:_MOST_TEXTS] if name in dict(getattr(plan, stage)) else []
            yield from (plan.with_argument(stage, name, Expression(repr(each))) for each in choices)

    def _sources(self) -> set[str]:
        """Return the file of the target, whose frames matter."""
        home = sys.modules.get(getattr(self._runner.target, "__module__", ""))
        return {str(getattr(home, "__file__", ""))}

    def _uses(self, stage: str) -> dict[str, ParameterUse]:
        return uses_of(self._runner.made_from if stage == "make" else self._runner.callee)

    def _of_checked_type(self, plan: CallPlan, stage: str) -> Iterator[CallPlan]:
        """Yield plans with an object of a class for which the source checks a parameter."""
        home = sys.modules.get(getattr(self._runner.target, "__module__", ""))
        for name, use in self._uses(stage).items():
            value = dict(getattr(plan, stage)).get(name)
            for known in list(use.types)[:_MOST_TEXTS] if value is not None else ():
                kind = getattr(home, known, None)
                if inspect.isclass(kind) and kind.__module__ not in {"builtins", "torch"}:
                    kind = concrete(kind)
                    made = construction(kind) if kind is not None else None
                    if made is not None and value is not None and made.text != value.text:
                        yield plan.with_argument(stage, name, made)

    def _smaller(self, plan: CallPlan, stage: str) -> Iterator[CallPlan]:
        """Yield a plan with fewer layers: the defaults of a constructor may be those of a large model."""
        callee = self._runner.made_from if self._runner.made_from is not None else self._runner.callee
        try:
            known = parameters(callee)
        except (TypeError, ValueError):
            return
        where = "make" if self._runner.made_from is not None else stage
        smaller = plan
        for each, _ in known:
            value = dict(getattr(plan, where)).get(each.name)
            is_number = type(each.default) is int and each.default > 1
            if _DEPTHS.search(each.name) and (value is not None or is_number):
                smaller = smaller.with_argument(where, each.name, Expression("1"))
        if smaller != plan:
            yield smaller

    def _optional(self, plan: CallPlan, stage: str, text: str) -> dict[str, Argument]:
        """Return guesses for parameters that the plan omits: with the default None, or named in a message."""
        callee = self._runner.made_from if stage == "make" else self._runner.callee
        try:
            known = parameters(callee.forward if isinstance(callee, nn.Module) else callee)
        except (TypeError, ValueError, AttributeError):
            return {}
        taken, uses = dict(getattr(plan, stage)), uses_of(callee)
        return {
            each.name: guess(each.name, each, hint, documentation_of(callee), use=uses.get(each.name))
            for each, hint in known
            if each.name not in taken and (each.default is None or re.search(rf"[`'\"]{each.name}[`'\"]", text))
        }

    def _wrapped(self, plan: CallPlan, stage: str) -> Iterator[CallPlan]:
        """Yield plans in which a wrapped module is one that the target's own file defines."""
        home = sys.modules.get(getattr(self._runner.target, "__module__", ""))
        siblings = [each for each in vars(home).values() if self._may_be_wrapped(each)] if home is not None else []
        for name, value in getattr(plan, stage) or plan.make:
            if isinstance(value, Expression) and value.text.startswith("nn."):
                for each in self._namesakes(name):
                    made = construction(each)
                    if made is not None:
                        yield plan.with_argument(stage if getattr(plan, stage) else "make", name, made)
        for each in siblings[:_MOST_SIBLINGS]:
            made = construction(each)
            for name, value in getattr(plan, stage) or plan.make:
                if made is not None and isinstance(value, Expression) and value.text.startswith(("nn.", "torch.relu")):
                    yield plan.with_argument(stage if getattr(plan, stage) else "make", name, made)

    def _may_be_wrapped(self, each: Any) -> bool:
        is_module = (
            inspect.isclass(each) and issubclass(each, nn.Module) and each not in (self._runner.made_from, nn.Module)
        )
        return is_module and not each.__module__.startswith("torch.")

    def _namesakes(self, name: str) -> list[type]:
        """Return modules of the target's package that are named like a parameter and need no arguments."""
        package = str(getattr(self._runner.target, "__module__", "")).partition(".")[0]
        stem = name.lower().removesuffix("_fn").removesuffix("_func").replace("_", "")
        homes = [each for key, each in list(sys.modules.items()) if key.partition(".")[0] == package]
        found: dict[str, type] = {}
        for each in [thing for home in homes for thing in list(vars(home).values())]:
            if self._may_be_wrapped(each) and each.__name__.lower().endswith(stem) and not is_abstract(each):
                with contextlib.suppress(TypeError, ValueError):
                    if all(one.default is not one.empty for one, _ in parameters(each)):
                        found.setdefault(each.__name__, each)
        return [found[each] for each in sorted(found)][:_MOST_TEXTS]


def _failing_line(error: BaseException, files: set[str]) -> str:
    """Return the source line in the target's file where an exception occurred; empty if it is unknown."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename in files]
    return frames[-1].line or "" if frames else ""


def _of_enumeration(plan: CallPlan, error: BaseException, files: set[str]) -> Iterator[CallPlan]:
    """Yield plans with a text that an enumeration has, if a message names the enumeration."""
    found = re.search(r"'([^']*)' is not a valid (\w+)", str(error))
    if found is None:
        return
    for module in [each for each in sys.modules.values() if str(getattr(each, "__file__", "")) in files]:
        kind = getattr(module, found.group(2), None)
        if inspect.isclass(kind) and issubclass(kind, enum.Enum):
            texts = [str(each.value) for each in kind][:_MOST_TEXTS]
            for where in ("make", "call"):
                for name, value in getattr(plan, where):
                    if value.text.strip("\"'") == found.group(1):
                        yield from (plan.with_argument(where, name, Expression(repr(each))) for each in texts)


def _changes_any(plan: CallPlan, other: CallPlan, arguments: list[tuple[str, str]]) -> bool:
    return any(
        dict(getattr(plan, where)).get(name) != dict(getattr(other, where)).get(name) for where, name in arguments
    )
