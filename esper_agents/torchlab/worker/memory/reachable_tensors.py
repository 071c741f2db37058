"""Find tensors that keep memory alive: their own, and those their graph saved for backward."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .tensor_roles import by_identity, every_tensor, gradient, storages

_MOST_NODES = 500_000


@dataclass
class ReachableTensor:
    """Tensor reachable from Python code that keeps memory alive.

    Attributes:
        tensor: The tensor.
        leaf: Parameter of this gradient; None if it is not a gradient.
        keys: Requested storages that it keeps alive.
        nodes: Number of requested graph nodes that it keeps alive.
    """

    __slots__ = ("keys", "leaf", "nodes", "tensor")

    tensor: torch.Tensor
    leaf: torch.Tensor | None
    keys: set[int]
    nodes: int

    @property
    def thing(self) -> torch.Tensor:
        """The object held by Python code: the tensor, or the parameter of this gradient."""
        return self.tensor if self.leaf is None else self.leaf


def roots(suspects: set[int], first_node: int, last_node: int) -> list[ReachableTensor]:
    """Return the tensors that keep any of the storages or graphs alive.

    Args:
        suspects: The storages, by identity.
        first_node: Sequence number of the first relevant graph node.
        last_node: Sequence number of the first node after the relevant ones.
    """
    found: list[ReachableTensor] = []
    with torch._C.DisableTorchFunction():  # noqa: SLF001 - or modes and subclasses would see every access to a tensor
        for tensor in every_tensor():
            grad = gradient(tensor) if tensor.is_leaf and tensor.requires_grad else None
            for each, leaf in ((tensor, None), (grad, tensor)):
                if each is None:
                    continue
                root = ReachableTensor(each, leaf, set(_found(each, suspects)), 0)
                for node in nodes([each]):
                    root.nodes += first_node <= node._sequence_nr() < last_node  # noqa: SLF001 - its creation time
                    for kept in saved(node):
                        root.keys |= set(_found(kept, suspects))
                if root.keys or root.nodes:
                    found.append(root)
    return found


def _found(tensor: torch.Tensor, suspects: set[int]) -> Iterator[int]:
    return (key for storage in storages(tensor) if (key := by_identity(storage)) in suspects)


def nodes(tensors: Iterable[torch.Tensor]) -> Iterator[Any]:
    """Yield each node of the graphs of some tensors once."""
    stack = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(stack)
    while stack and len(seen) < _MOST_NODES:
        node = stack.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                stack.append(following)


def living_nodes(known: Iterable[weakref.ref[torch.Tensor]]) -> int:
    """Return the number of graph nodes kept alive by reachable and by given tensors."""
    with torch._C.DisableTorchFunction():  # noqa: SLF001 - same reason
        tensors = [*every_tensor(), *(each for one in known if (each := one()) is not None)]
        grads = (gradient(tensor) for tensor in tensors if tensor.is_leaf and tensor.requires_grad)
        return sum(1 for _ in nodes([*tensors, *(grad for grad in grads if grad is not None)]))


def saved(node: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors saved for backward by a node, without unpacking: that may run user code, or recompute."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            try:
                packed = getattr(node, name)
            except RuntimeError:
                continue  # freed by a backward
            for each in packed if isinstance(packed, (list, tuple)) else (packed,):
                yield from (leaf for leaf in tree_leaves(_content(each)) if isinstance(leaf, torch.Tensor))
    # Attributes that a user's Function set on its context stay even after backward.
    yield from (each for each in getattr(node, "__dict__", {}).values() if isinstance(each, torch.Tensor))


def _content(packed: Any) -> Any:
    try:
        return getattr(packed, "data", None)
    except RuntimeError:
        return None
