"""Acceptance rules read from `acceptance.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject

_FILE = Path(__file__).parent.parent / "acceptance.toml"


@cache
def acceptance() -> JsonObject:
    """Return the acceptance rules; reports contain a copy, from which a verdict is recomputed."""
    rules: JsonObject = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return rules
