"""Inspect the autograd graph of a running backward pass: masks between the loss and a node."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A graph larger than this is not walked.
_MOST_NODES = 50_000
# How far above a node a mask may stand to be the one that hid its result.
_MOST_HOPS = 6
_MASKS = ("Where", "MaskedFill", "MaskedScatter", "MaskedSelect", "Index", "Clamp", "NanToNum", "Minimum", "Maximum")


class Roots:
    """Knows what the running backward pass started from."""

    def __init__(self) -> None:
        """Start with none."""
        self._roots: list[Any] = []

    @contextmanager
    def watched(self, on_roots: Callable[[list[torch.Tensor]], None]) -> Iterator[None]:
        """Notice each start of a backward pass inside the block.

        Args:
            on_roots: Told the tensors that it starts from, before it does.
        """
        # Both `backward` and `grad` go through it; there is no public place that both do.
        autograd: Any = torch.autograd
        engine = autograd._engine_run_backward  # noqa: SLF001 - see above

        def run(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            tensors = [each for each in outputs if isinstance(each, torch.Tensor)]
            on_roots(tensors)
            outer, self._roots = self._roots, [each.grad_fn for each in tensors if each.grad_fn is not None]
            try:
                return engine(outputs, *args, **kwargs)
            finally:
                self._roots = outer

        autograd._engine_run_backward = run  # noqa: SLF001 - see above
        try:
            yield
        finally:
            autograd._engine_run_backward = engine  # noqa: SLF001 - see above

    def masks_above(self, node: Any) -> list[str]:
        """Return the masks that stand a few nodes above one, on the way to the loss, nearest first."""
        above: dict[Any, list[Any]] = {}
        waiting, seen = deque(self._roots), set(self._roots)
        while waiting and len(seen) < _MOST_NODES:
            one = waiting.popleft()
            for below, _ in one.next_functions:
                if below is not None:
                    above.setdefault(below, []).append(one)
                    if below not in seen:
                        seen.add(below)
                        waiting.append(below)
        masks: list[str] = []
        level, passed = [node], {node}
        for _ in range(_MOST_HOPS):
            level = [one for each in level for one in above.get(each, ()) if one not in passed]
            passed.update(level)
            masks += [one.name() for one in level if one.name().startswith(_MASKS)]
        return list(dict.fromkeys(masks))
