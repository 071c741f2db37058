"""Inspect the autograd graph of a running backward pass: masks between the loss and a node."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Maximum size of a graph to walk.
_MOST_NODES = 50_000
# Maximum distance above a node at which a mask may have hidden its result.
_MOST_HOPS = 6
_MASKS = ("Where", "MaskedFill", "MaskedScatter", "MaskedSelect", "Index", "Clamp", "NanToNum", "Minimum", "Maximum")


class Roots:
    """Tracker of the roots of the running backward pass."""

    def __init__(self) -> None:
        """Create a tracker without roots."""
        self._roots: list[Any] = []

    @contextmanager
    def watched(self, on_roots: Callable[[list[torch.Tensor]], None]) -> Iterator[None]:
        """Detect each start of a backward pass inside the block.

        Args:
            on_roots: Called with the root tensors before each start.
        """
        # Both `backward` and `grad` call it; they share no public function.
        autograd: Any = torch.autograd
        engine = autograd._engine_run_backward  # noqa: SLF001 - see above

        def run(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            tensors = [output for output in outputs if isinstance(output, torch.Tensor)]
            on_roots(tensors)
            outer, self._roots = self._roots, [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
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
        """Return the masks within a few nodes above a node, towards the loss, nearest first."""
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
