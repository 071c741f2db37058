"""Job: run one arm through a plan; see `observe.observe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .observe import observe

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.target import LoadedTarget


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> Any:
    """Return the result of `observe.observe`."""
    return observe(target, request, tell)


def warm() -> None:
    """Import torch's compiler, which optimizers import on first use."""
    import torch._dynamo  # noqa: F401 - imported for its side effect
