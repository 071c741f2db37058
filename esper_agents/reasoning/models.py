"""Language models as data: roles, token prices and context sizes."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import cache
from typing import TYPE_CHECKING, Any

from esper_agents.errors import DefinitionError
from esper_agents.paths import data_folder
from esper_agents.reasoning.model_activity import ActivitySettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from esper_agents.reasoning.model_activity import ModelActivity

INHERIT = "inherit"
_FILE = "models.toml"
# Limits of a model that neither the table nor the user's settings list: small, so that its server accepts them.
UNKNOWN_WINDOW, UNKNOWN_OUTPUT = 64_000, 8_000
# Price of writing to the cache for five minutes, as a multiple of the input price.
_CACHE_WRITE = Decimal("1.25")


@dataclass(frozen=True, slots=True)
class Usage:
    """Token usage of one model turn.

    Attributes:
        fresh: Prompt tokens neither read from the cache nor written to it.
        written: Prompt tokens written to the cache.
        cached: Prompt tokens read from the cache.
        output: Tokens of the answer, thinking included.
    """

    fresh: int = 0
    written: int = 0
    cached: int = 0
    output: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both usages."""
        return Usage(
            self.fresh + other.fresh,
            self.written + other.written,
            self.cached + other.cached,
            self.output + other.output,
        )

    @property
    def tokens(self) -> int:
        """Total number of tokens."""
        return self.fresh + self.written + self.cached + self.output


@dataclass(frozen=True, slots=True)
class Model:
    """Language model with its prices and limits.

    Attributes:
        name: Full name.
        input: Price of a prompt token in millionths of a US dollar, which is US dollars per million tokens.
        cache_write: Price of a token that is written to the cache.
        cache_read: Price of a token that is read from the cache.
        output: Price of a token of the answer.
        window: Context window in tokens, prompt and answer together.
        most_output: Maximum number of tokens of an answer.
        is_listed: Whether its prices are known; otherwise it has the highest prices of the table.
    """

    name: str
    input: Decimal
    cache_write: Decimal
    cache_read: Decimal
    output: Decimal
    window: int
    most_output: int
    is_listed: bool = True

    def cost(self, usage: Usage) -> int:
        """Return the cost of a turn in millionths of a US dollar, rounded up."""
        exact = (
            usage.fresh * self.input
            + usage.written * self.cache_write
            + usage.cached * self.cache_read
            + usage.output * self.output
        )
        return int(exact.to_integral_value(ROUND_CEILING))


@dataclass(frozen=True, slots=True)
class ModelTable:
    """Table of language models.

    Attributes:
        models: Models by full name.
        roles: Full names by role.
        fallback: Model to ask if a model declines or is overloaded; empty for none.
        activities: Settings of requests by activity.
    """

    models: Mapping[str, Model]
    roles: Mapping[str, str]
    fallback: str
    activities: Mapping[ModelActivity, ActivitySettings] = field(default_factory=dict)

    def settings_for(self, activity: ModelActivity) -> ActivitySettings:
        """Return the settings of the requests of an activity."""
        return self.activities.get(activity, ActivitySettings())

    def resolve(self, wanted: str) -> Model:
        """Return the model of a definition's `model` field: a role, or a full name."""
        name = self.roles.get(wanted.casefold() or INHERIT, wanted)
        return self.models.get(name) or self.unlisted(name)

    def unlisted(self, name: str) -> Model:
        """Return a model that the table does not contain, with the highest prices and small limits."""
        dearest = max(self.models.values(), key=lambda each: each.output)
        prices = (dearest.input, dearest.cache_write, dearest.cache_read, dearest.output)
        return Model(name, *prices, UNKNOWN_WINDOW, UNKNOWN_OUTPUT, is_listed=False)

    def changed(self, settings: ModelSettings) -> ModelTable:
        """Return the table with a user's settings."""
        table = ModelTable(
            self.models,
            {**self.roles, **settings.roles},
            self.fallback if settings.fallback is None else settings.fallback,
            settings.activities,
        )
        return replace(table, models={**self.models, **{model.name: model.of(table) for model in settings.models}})


@dataclass(frozen=True, slots=True)
class ModelOverride:
    """Prices and limits that a user states for a model; None keeps what the table says.

    Attributes:
        name: Full name.
        input: Price of a million prompt tokens in US dollars.
        output: Price of a million tokens of the answer.
        cache_write: Price of a million tokens written to the cache; a quarter above `input` if only that is stated.
        cache_read: Price of a million tokens read from the cache; `input` if only that is stated.
        window: Context window in tokens.
        most_output: Maximum number of tokens of an answer.
    """

    name: str
    input: Decimal | None = None
    output: Decimal | None = None
    cache_write: Decimal | None = None
    cache_read: Decimal | None = None
    window: int | None = None
    most_output: int | None = None

    def of(self, table: ModelTable) -> Model:
        """Return the model with these prices and limits."""
        known = table.models.get(self.name) or table.unlisted(self.name)
        changed: dict[str, Any] = {
            name: value
            for name in ("input", "output", "cache_write", "cache_read", "window", "most_output")
            if (value := getattr(self, name)) is not None
        }
        if self.input is not None:
            changed = {"cache_write": self.input * _CACHE_WRITE, "cache_read": self.input} | changed
        has_prices = self.input is not None and self.output is not None
        return replace(known, **changed, is_listed=known.is_listed or has_prices)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings for models: the user's, with the limits of the project.

    Attributes:
        roles: Full model names by role.
        fallback: Role or name of the fallback model; None if the user sets none.
        models: Prices and limits of models.
        activities: Settings of requests by activity.
    """

    roles: Mapping[str, str] = field(default_factory=dict)
    fallback: str | None = None
    models: tuple[ModelOverride, ...] = ()
    activities: Mapping[ModelActivity, ActivitySettings] = field(default_factory=dict)


@cache
def load_models() -> ModelTable:
    """Return the shipped table.

    Raises:
        DefinitionError: The table is malformed.
    """
    return read_models((data_folder("prompts") / _FILE).read_text(encoding="utf-8"))


def read_models(text: str) -> ModelTable:
    """Parse a table of models from TOML.

    Raises:
        DefinitionError: The table is malformed.
    """
    try:
        table = tomllib.loads(text)
        models = {each["name"]: _model(each) for each in table["model"]}
        return ModelTable(models, dict(table["roles"]), str(table.get("fallback", {}).get("model", "")))
    except (tomllib.TOMLDecodeError, AttributeError, KeyError, TypeError, ValueError, InvalidOperation) as error:
        raise DefinitionError(_FILE, f"malformed table of models: {error}", remedy="reinstall esper-agents") from error


def _model(row: Mapping[str, Any]) -> Model:
    return Model(
        name=str(row["name"]),
        input=Decimal(row["input"]),
        cache_write=Decimal(row["cache_write"]),
        cache_read=Decimal(row["cache_read"]),
        output=Decimal(row["output"]),
        window=int(row["window"]),
        most_output=int(row["most_output"]),
    )
