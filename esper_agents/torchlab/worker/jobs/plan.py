"""Plans a comparison by trying it on the baseline; see `plan.prepare`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..plan import prepare
from ..target import Target


def run(target: Target, request: dict[str, Any], tell: Callable[[str, float], None]) -> Any:
    """Return what `plan.prepare` returns."""
    return prepare(target, request, tell)
