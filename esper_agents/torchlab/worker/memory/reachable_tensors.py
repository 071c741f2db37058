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
    """A tensor that Python code can reach and that keeps memory alive.

    Attributes:
        tensor: It.
        leaf: The parameter whose gradient it is; None where it is no gradient.
        keys: Storages that it keeps, of those that were asked for.
        nodes: How many nodes of graphs it keeps, of those that were asked for.
    """

    __slots__ = ("keys", "leaf", "nodes", "tensor")

    tensor: torch.Tensor
    leaf: torch.Tensor | None
    keys: set[int]
    nodes: int

    @property
    def thing(self) -> torch.Tensor:
        """What Python code holds: the tensor, or the parameter whose gradient it is."""
        return self.tensor if self.leaf is None else self.leaf


def roots(suspects: set[int], first_node: int, last_node: int) -> list[ReachableTensor]:
    """Return the tensors that keep any of some storages or graphs alive.

    Args:
        suspects: The storages, by identity.
        first_node: Sequence number of the first node of a graph that counts.
        last_node: Of the first that no longer does.
    """
    found: list[ReachableTensor] = []
    with torch._C.DisableTorchFunction():  # noqa: SLF001 - or modes and subclasses would see every look at a tensor
        for tensor in every_tensor():
            grad = gradient(tensor) if tensor.is_leaf and tensor.requires_grad else None
            for each, leaf in ((tensor, None), (grad, tensor)):
                if each is None:
                    continue
                root = ReachableTensor(each, leaf, set(_found(each, suspects)), 0)
                for node in nodes([each]):
                    root.nodes += first_node <= node._sequence_nr() < last_node  # noqa: SLF001 - tells when it was made
                    for kept in saved(node):
                        root.keys |= set(_found(kept, suspects))
                if root.keys or root.nodes:
                    found.append(root)
    return found


def _found(tensor: torch.Tensor, suspects: set[int]) -> Iterator[int]:
    return (key for each in storages(tensor) if (key := by_identity(each)) in suspects)


def nodes(tensors: Iterable[torch.Tensor]) -> Iterator[Any]:
    """Yield each node of the graphs behind some tensors once."""
    stack = [each.grad_fn for each in tensors if each.grad_fn is not None]
    seen = set(stack)
    while stack and len(seen) < _MOST_NODES:
        node = stack.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                stack.append(following)


def living_nodes(known: Iterable[weakref.ref[torch.Tensor]]) -> int:
    """Return how many nodes of graphs are kept by tensors that Python code can reach, and by those that are known."""
    with torch._C.DisableTorchFunction():  # noqa: SLF001 - likewise
        tensors = [*every_tensor(), *(each for one in known if (each := one()) is not None)]
        grads = (gradient(each) for each in tensors if each.is_leaf and each.requires_grad)
        return sum(1 for _ in nodes([*tensors, *(each for each in grads if each is not None)]))


def saved(node: Any) -> Iterator[torch.Tensor]:
    """Yield what a node of a graph saved for backward, without unpacking: that may run user code, or compute again."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            try:
                packed = getattr(node, name)
            except RuntimeError:
                continue  # freed by a backward
            for each in packed if isinstance(packed, (list, tuple)) else (packed,):
                yield from (leaf for leaf in tree_leaves(_content(each)) if isinstance(leaf, torch.Tensor))
    # What a Function of the user's put on its context stays there even after backward.
    yield from (each for each in getattr(node, "__dict__", {}).values() if isinstance(each, torch.Tensor))


def _content(packed: Any) -> Any:
    try:
        return getattr(packed, "data", None)
    except RuntimeError:
        return None
