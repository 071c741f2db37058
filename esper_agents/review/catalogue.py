"""Catalogue of lint rules: those in `rules/`, of installed packages, and of modules passed in."""

from __future__ import annotations

import inspect
import os
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from esper_agents.errors import DefinitionError, NotFoundError, UsageError
from esper_agents.review import rules as own_rules
from esper_agents.review.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from importlib.metadata import EntryPoint
    from types import ModuleType

    from esper_agents.domain.finding import Category
    from esper_agents.extensions import Extension

GROUP = "esper_agents.rules"
LISTING = "esper rule"


def catalogue(extra: Sequence[ModuleType] = ()) -> tuple[Rule, ...]:
    """Return one instance of every rule, by code.

    Args:
        extra: Modules with further rules in them.

    Raises:
        DefinitionError: Two rules share a code, a package's rules cannot be loaded, or no rule is installed.
    """
    found: dict[str, Rule] = {}
    for rule in (*_installed(), *(rule for module in extra for rule in _rules_of(module))):
        if (other := found.get(rule.code)) is not None and type(other) is not type(rule):
            where = type(rule).__module__
            raise DefinitionError(
                where, f"code {rule.code} is already used by {other.name}", remedy="give the rule another code"
            )
        found[rule.code] = rule
    return tuple(found[code] for code in sorted(found))


def select(
    rules: Iterable[Rule], *, categories: Collection[Category] | None, names: Collection[str] | None
) -> tuple[Rule, ...]:
    """Return the rules of these categories and, if names are given, only those with these codes or names.

    Raises:
        NotFoundError: A name matches no rule.
        UsageError: No rule remains.
    """
    rules = tuple(rules)
    wanted = None if names is None else {find(name, rules).code for name in names}
    selected = tuple(
        rule
        for rule in rules
        if (categories is None or rule.category in categories) and (wanted is None or rule.code in wanted)
    )
    if not selected:
        named = f"none of the rules named is in {', '.join(categories or ())}" if names else "no category was named"
        raise UsageError(named, remedy=f"omit the category, or choose from `{LISTING}`")
    return selected


def find(name: str, rules: Iterable[Rule]) -> Rule:
    """Return the rule with a code or name, ignoring case.

    Raises:
        NotFoundError: No rule has that code or name.
    """
    known = {key: rule for rule in rules for key in (rule.code, rule.name)}
    for key in (name, name.upper(), name.lower()):
        if key in known:
            return known[key]
    raise NotFoundError("rule", name, known, listing=LISTING)


@cache
def _installed() -> tuple[Rule, ...]:
    own = (
        import_module(f"{own_rules.__name__}.{iter_module.name}") for iter_module in iter_modules(own_rules.__path__)
    )
    rules = tuple(rule for module in own for rule in _rules_of(module))
    if not rules:
        raise DefinitionError(
            str(Path(*own_rules.__path__)), "the folder contains no lint rule", remedy="reinstall esper-agents"
        )
    return rules + tuple(_from_packages())


def has_foreign_rules() -> bool:
    """Return whether an installed package provides rules."""
    return bool(_points())


def _from_packages() -> Iterator[Rule]:
    yield from (rule for rule, _ in _foreign())


@cache
def providers() -> Mapping[str, str]:
    """Return the distribution, version and file digest of each rule from installed packages, by rule code."""
    return {rule.code: extension.provider_of(type(rule)) for rule, extension in _foreign()}


@cache
def _foreign() -> tuple[tuple[Rule, Extension], ...]:
    return tuple((rule, found) for found in map(_loaded, _points()) for rule in _named_by(found.thing))


def _loaded(point: EntryPoint) -> Extension:
    from esper_agents.extensions import load_extension

    return load_extension(point)


def _named_by(thing: Any) -> Iterator[Rule]:
    yield from _rules_of(thing) if inspect.ismodule(thing) else (thing(),)


@cache
def _points() -> tuple[EntryPoint, ...]:
    if not any(_mentions_rules(Path(each or os.curdir)) for each in sys.path):
        return ()
    # Importing it takes longer than most reviews of one file.
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)))


def _mentions_rules(place: Path) -> bool:
    """Return whether a package in an installation folder may provide rules; a path that is not a folder may."""
    try:
        with os.scandir(place) as entries:
            installed = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return True
    except OSError:
        return False
    return any(GROUP.encode() in _text(Path(each, "entry_points.txt")) for each in installed)


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _rules_of(module: ModuleType) -> Iterator[Rule]:
    for var in vars(module).values():
        # First what most variables are not.
        is_own = isinstance(var, type) and var.__module__ == module.__name__
        if is_own and issubclass(var, Rule) and not inspect.isabstract(var):
            yield var()
