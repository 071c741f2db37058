"""Runs one arm through a plan; see `observe.observe`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..observe import observe
from ..target import Target


def run(target: Target, request: dict[str, Any], tell: Callable[[str, float], None]) -> Any:
    """Return what `observe.observe` returns."""
    return observe(target, request, tell)
