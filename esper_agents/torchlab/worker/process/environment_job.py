"""Job: describe the measurement process: Python, torch, devices and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..compare.process_fingerprint import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget


def run(target: LoadedTarget | None, request: dict[str, Any], tell: Callable[[str, float], None]) -> dict[str, Any]:
    """Describe this process; see `process_fingerprint.describe`. Needs no target."""
    del target, request, tell
    return describe()
