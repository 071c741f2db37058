"""Job: plan a comparison by trying it on the baseline; see `test_plan.prepare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .test_plan import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> Any:
    """Return the result of `test_plan.prepare`."""
    return prepare(target, request, tell)
