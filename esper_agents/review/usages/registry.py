"""Registry of the conditions that decide the cases of usage entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables
    from esper_agents.review.usages.entries import UsageEntry
    from esper_agents.review.usages.sites import UsageSite


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """Whether a condition holds, with what it found.

    Attributes:
        holds: Whether it holds; None if the code does not say it.
        values: Texts for the answer, by name.
        stated: Words of the user on which the decision rests; empty if it rests on the code.
    """

    holds: bool | None
    values: Mapping[str, str] = field(default_factory=dict)
    stated: str = ""


@dataclass(frozen=True, slots=True)
class UsageContext:
    """What a condition may read.

    Attributes:
        site: The place in question.
        entry: The entry.
        files: The files in question.
        index: Facts about all files of the project.
        statements: What the user stated, such as `labels` to (`0..9`, the words).
    """

    site: UsageSite
    entry: UsageEntry
    files: Sequence[FileTables]
    index: ProjectIndex
    statements: Mapping[str, tuple[str, str]]


Condition: TypeAlias = Callable[..., ConditionResult]
_CONDITIONS: dict[str, Condition] = {}


def condition(function: Condition) -> Condition:
    """Register a condition by the name of its function.

    Its first parameter is the context, the others are the words of the case. If the code does not say whether it holds,
    it returns `ConditionResult(None)`.
    """
    _CONDITIONS[getattr(function, "__name__", "")] = function
    return function


@cache
def conditions() -> Mapping[str, Condition]:
    """Return all conditions by name."""
    from esper_agents.review.usages import conditions as package

    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return _CONDITIONS


def decide(text: str, context: UsageContext) -> ConditionResult:
    """Return whether a condition of a case holds at a place; `not` before it inverts a certain result."""
    name, *words = text.split()
    if name == "not":
        inner = decide(" ".join(words), context)
        return ConditionResult(None if inner.holds is None else not inner.holds, inner.values, inner.stated)
    return conditions()[name](context, *words)
