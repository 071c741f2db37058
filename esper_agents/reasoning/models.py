"""Language models as data: roles, token prices and context sizes."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import cache
from typing import TYPE_CHECKING, Any

from esper_agents.errors import DefinitionError
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

INHERIT = "inherit"
_FILE = "models.toml"


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
        is_listed: Whether the table contains it; an unlisted model has the highest prices of the table.
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
    """

    models: Mapping[str, Model]
    roles: Mapping[str, str]
    fallback: str

    def resolve(self, wanted: str) -> Model:
        """Return the model of a definition's `model` field: a role, or a full name."""
        name = self.roles.get(wanted.casefold() or INHERIT, wanted)
        return self.models.get(name) or self._unlisted(name)

    def _unlisted(self, name: str) -> Model:
        dearest = max(self.models.values(), key=lambda each: each.output)
        smallest = min(self.models.values(), key=lambda each: each.window)
        prices = (dearest.input, dearest.cache_write, dearest.cache_read, dearest.output)
        return Model(name, *prices, smallest.window, smallest.most_output, is_listed=False)

    def changed(self, roles: Mapping[str, str], fallback: str | None = None) -> ModelTable:
        """Return the table with the roles of a user's settings."""
        return ModelTable(self.models, {**self.roles, **roles}, self.fallback if fallback is None else fallback)


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
