"""Plans a comparison by trying it on the baseline; see `plan.prepare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..plan import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target import Target


def run(target: Target, request: dict[str, Any], tell: Callable[[str, float], None]) -> Any:
    """Return what `plan.prepare` returns."""
    return prepare(target, request, tell)
