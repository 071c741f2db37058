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
    """Return the rules; reports hold a copy, and a verdict is recomputed by the copy."""
    rules: JsonObject = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return rules
