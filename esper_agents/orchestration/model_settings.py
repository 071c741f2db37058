"""Model settings: [models] and [[model]] of the user's file, and limits of the project's file."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from esper_agents.orchestration.setting_errors import line_of, refuse
from esper_agents.reasoning.model_activity import (
    LEAST_THINKING,
    ActivitySettings,
    ModelActivity,
    ReasoningEffort,
    ThinkingMode,
)
from esper_agents.reasoning.models import ModelOverride, ModelSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

MODELS, MODEL = "models", "model"
_FALLBACK, _ACTIVITY = "fallback", "activity"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}")
_NAME_ONE = 'write [models] and below it opus = "claude-opus-5-5"'
_LOOK = "see docs/models.md for the settings"
_PRICES = ("input", "output", "cache_write", "cache_read")
_LIMITS = ("window", "most_output")
_LEAST_WINDOW, _LEAST_OUTPUT, _MOST_TOKENS, _DEAREST = 16_000, 2_000, 100_000_000, Decimal(1_000_000)
_CHOICES: dict[str, type[StrEnum]] = {"thinking": ThinkingMode, "effort": ReasoningEffort}
_LEAST = {"thinking_tokens": LEAST_THINKING, "answer_tokens": _LEAST_OUTPUT}


def persons_models(text: str, shown: str) -> ModelSettings:
    """Return the model settings of the user's file.

    Args:
        text: Content of the file; valid TOML.
        shown: Name of the file in errors.

    Raises:
        DefinitionError: A setting is invalid.
    """
    table = _table(text, shown)
    roles = {name.casefold(): value for name, value in table.items() if name != _ACTIVITY}
    for role, name in table.items():
        is_name = isinstance(name, str) and bool(_NAME.fullmatch(name) or (role == _FALLBACK and not name))
        if role != _ACTIVITY and not is_name:
            refuse(shown, line_of(text, role, 0), f"{role[:60]!r} must be the full name of a model", _NAME_ONE)
    fallback = roles.pop(_FALLBACK, None)
    return ModelSettings(roles, fallback, _overrides(text, shown), _activities(table, text, shown))


def projects_limits(text: str, shown: str) -> Mapping[ModelActivity, ActivitySettings]:
    """Return the limits of a project's file, which can only tighten the user's settings.

    Raises:
        DefinitionError: A setting is invalid, or is the user's alone.
    """
    table = _table(text, shown)
    for name in table:
        if name != _ACTIVITY:
            problem = f"a project cannot choose models: {name[:60]!r}"
            refuse(shown, line_of(text, name, 0), problem, "remove it; supported is [models.activity.NAME]")
    return _activities(table, text, shown)


def tightened(
    own: Mapping[ModelActivity, ActivitySettings], project: Mapping[ModelActivity, ActivitySettings]
) -> Mapping[ModelActivity, ActivitySettings]:
    """Return the settings of activities with the limits of a project."""
    none = ActivitySettings()
    return {
        each: own.get(each, none).tightened(project.get(each, none))
        for each in ModelActivity
        if each in own or each in project
    }


def _table(text: str, shown: str) -> dict[str, Any]:
    table = tomllib.loads(text).get(MODELS, {})
    if not isinstance(table, dict):
        refuse(shown, line_of(text, MODELS, 0), "models must be a table", _NAME_ONE)
    return table


def _activities(table: Mapping[str, Any], text: str, shown: str) -> Mapping[ModelActivity, ActivitySettings]:
    rows = table.get(_ACTIVITY, {})
    known = ", ".join(ModelActivity)
    if not isinstance(rows, dict):
        refuse(shown, line_of(text, _ACTIVITY, 0), "activity must be a table", f"write [models.activity.NAME]: {known}")
    found = {}
    for name, row in rows.items():
        if name not in tuple(ModelActivity) or not isinstance(row, dict):
            problem = f"unknown activity {name[:60]!r}"
            refuse(shown, line_of(text, f"{MODELS}.{_ACTIVITY}.{name}", 0), problem, f"write one of {known}")
        members = {member: _activity_member(member, value, text, shown) for member, value in row.items()}
        found[ModelActivity(name)] = ActivitySettings(**members)
    return found


def _activity_member(member: str, value: Any, text: str, shown: str) -> Any:
    line = line_of(text, member, 0)
    if member in _CHOICES:
        values = tuple(_CHOICES[member])
        if value not in values:
            refuse(shown, line, f"{member} must be one of {len(values)} values", f"write one of {', '.join(values)}")
        return _CHOICES[member](value)
    if member not in _LEAST:
        known = ", ".join(field.name for field in fields(ActivitySettings))
        refuse(shown, line, f"unknown member {member[:60]!r} of an activity", f"remove it; supported are {known}")
    return _tokens(member, value, _LEAST[member], shown, line)


def _tokens(member: str, value: Any, least: int, shown: str, line: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST_TOKENS:
        refuse(shown, line, f"{member} must be a number of tokens from {least:,}", f"write {member} = 16_000")
    return value


def _overrides(text: str, shown: str) -> tuple[ModelOverride, ...]:
    rows = tomllib.loads(text).get(MODEL, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        refuse(shown, line_of(text, MODEL, 0), "models must be tables", "write [[model]] above each model")
    return tuple(_override(row, text, shown) for row in rows)


def _override(row: Mapping[str, Any], text: str, shown: str) -> ModelOverride:
    members: dict[str, Any] = {}
    for member, value in row.items():
        line = line_of(text, member, text.find(str(row.get("name", ""))) if member != "name" else 0)
        if member in _PRICES:
            members[member] = _price(member, value, shown, line)
        elif member in _LIMITS:
            least = _LEAST_WINDOW if member == "window" else _LEAST_OUTPUT
            members[member] = _tokens(member, value, least, shown, line)
        elif member != "name":
            known = ", ".join(("name", *_PRICES, *_LIMITS))
            refuse(shown, line, f"unknown member {member[:60]!r} of a model", f"remove it; supported are {known}")
    name = row.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        remedy = 'write name = "local-7b" below [[model]]'
        refuse(shown, line_of(text, "name", 0), "a model needs its full name", remedy)
    made = ModelOverride(name, **members)
    if made.window is not None and made.most_output is not None and made.most_output >= made.window:
        refuse(shown, line_of(text, "most_output", 0), f"most_output of {name!r} exceeds its window", _LOOK)
    return made


def _price(member: str, value: Any, shown: str, line: int) -> Decimal:
    is_number = isinstance(value, int | float | str) and not isinstance(value, bool)
    try:
        price = Decimal(str(value)) if is_number else Decimal("NaN")
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite() or not 0 <= price <= _DEAREST:
        refuse(shown, line, f"{member} must be US dollars for a million tokens", f"write {member} = 0.50")
    return price
