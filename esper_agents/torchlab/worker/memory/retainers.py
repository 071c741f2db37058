"""Find the list, attribute or variable that retains memory, with its line and its growth."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..target.target import LoadedTarget
from .reachable_tensors import ReachableTensor, roots
from .reference_chains import holders, referred
from .reference_names import Holder
from .result import MemoryHolder
from .retaining_lines import graph_keeping_line, is_compared, keeping_line
from .training_step import Stepper

_MOST_ROOTS = 64
_MOST_HOLDERS = 6
_ENOUGH_ALIKE = 3
# Share of the growth below which a further retainer is not reported.
_LEAST_SHARE = 0.05
_CAPACITIES = (
    "capacity",
    "maxlen",
    "max_len",
    "max_size",
    "maxsize",
    "size_limit",
    "buffer_size",
    "max_items",
)
_COUNTED = (list, dict, set, collections.deque)
# Order of kinds that retain equally much: names known to the user come first.
_RANK = (
    "global",
    "attribute",
    "class attribute",
    "closure",
    "default",
    "cache",
    "gradient",
    "local",
    "function",
    "object",
)


@dataclass
class _Found:
    """Retainer, one of its tensors, and the memory that all its tensors keep alive."""

    holder: Holder
    root: ReachableTensor
    keys: set[int]
    nodes: int
    tensors: int = 1

    def add(self, root: ReachableTensor) -> None:
        """Add another retained tensor."""
        self.keys |= root.keys
        self.nodes = max(root.nodes, self.nodes)
        self.tensors += 1


class RetainerSearch:
    """Search for the retainers of storages."""

    def __init__(self, target: LoadedTarget, stepper: Stepper, sizes: dict[int, int]) -> None:
        """Prepare the search.

        Args:
            target: Target whose code is searched.
            stepper: Runs one more step of the target.
            sizes: Sizes of the storages in bytes, by identity.
        """
        self._target = target
        self._stepper = stepper
        self._sizes = sizes

    def holders(self, node_numbers: tuple[int, int], seed: int | None) -> tuple[MemoryHolder, ...]:
        """Return the retainers, largest first; one more step shows which of them grow.

        Args:
            node_numbers: Sequence number of the first node whose graph remained, and of the first after them.
            seed: Seed of the step's inputs; None if memory does not suffice for a step.
        """
        found: dict[tuple[str, str], _Found] = {}
        # Reference walks are slow. None is needed for neighbours of a tensor whose retainer is known, nor for one
        # of many equal tensors.
        beside: dict[int, _Found] = {}
        walked: dict[tuple[object, ...], list[_Found]] = {}
        kept = roots(set(self._sizes), *node_numbers)
        kept.sort(key=lambda each: (self._bytes(each.keys), each.nodes), reverse=True)
        held = referred([each.thing for each in kept])
        for root in [each for each in kept if id(each.thing) in held][:_MOST_ROOTS]:
            if id(root.tensor) in beside:
                beside[id(root.tensor)].add(root)
                continue
            alike = walked.setdefault(_look(root), [])
            if len(alike) >= _ENOUGH_ALIKE and len({id(each) for each in alike}) == 1:
                alike[0].add(root)
                continue
            for holder in self._of(root):
                key = holder.kind, holder.name
                if key in found:
                    found[key].add(root)
                else:
                    found[key] = _Found(holder, root, set(root.keys), root.nodes)
                alike.append(found[key])
                beside.update((id(entry), found[key]) for entry in _entries(holder))
        ranked = self._ranked(list(found.values()))
        described = tuple(self._described(each) for each in ranked)
        return described if seed is None else tuple(self._watched(ranked, described, seed))

    def _ranked(self, found: list[_Found]) -> list[_Found]:
        least_bytes = _LEAST_SHARE * sum(self._sizes.values())
        least_nodes = _LEAST_SHARE * max((each.nodes for each in found), default=0)
        found = [
            each
            for each in found
            if self._bytes(each.keys) >= max(least_bytes, 1) or (each.nodes and each.nodes >= least_nodes)
        ]
        found.sort(
            key=lambda each: (-self._bytes(each.keys), -each.nodes, _RANK.index(each.holder.kind), each.holder.name)
        )
        return found[:_MOST_HOLDERS]

    def _watched(self, kept: list[_Found], described: tuple[MemoryHolder, ...], seed: int) -> Iterator[MemoryHolder]:
        """Yield the retainers with the entries that one more step adds."""
        before = [[len(one) for one in each.holder.containers] for each in kept]
        self._stepper.run(self._stepper.inputs(seed))
        for entry, each, sizes in zip(described, kept, before):  # noqa: B905 - Python 3.10; made from one list
            grown = [len(one) - size for one, size in zip(each.holder.containers, sizes)]  # noqa: B905 - same reason
            yield replace(entry, entries_per_step=next((number for number in grown if number), None))

    def _of(self, root: ReachableTensor) -> list[Holder]:
        found = holders(root.thing, self._is_own)
        for each in found if root.leaf is not None else ():
            each.kind, each.name = "gradient", f"{each.name}.grad"
        return found

    def _is_own(self, filename: str) -> bool:
        return bool(filename) and self._target.in_project(filename) is not None

    def _bytes(self, keys: set[int]) -> int:
        return sum(self._sizes[key] for key in keys)

    def _described(self, found: _Found) -> MemoryHolder:
        holder, tensor = found.holder, found.root.tensor
        container = next((each for each in holder.containers if isinstance(each, _COUNTED)), None)
        described = MemoryHolder(
            kind=holder.kind,
            name=holder.name,
            bytes=self._bytes(found.keys),
            tensors=found.tensors,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype),
            graph_nodes=found.nodes,
            graph_of=None if tensor.grad_fn is None else str(tensor.grad_fn.name()),
            container=None if container is None else type(container).__name__,
            entries=None if container is None else len(container),
            bound=_bound(holder, container),
        )
        return self._placed(described, holder)

    def _placed(self, described: MemoryHolder, holder: Holder) -> MemoryHolder:
        """Return a retainer with its file, its line and the line that keeps the memory."""
        own = self._target.in_project(holder.filename) if holder.filename else None
        if holder.kind == "gradient":
            own = self._target.file
        if own is None:
            return described
        described = replace(described, file=own)
        path = str(Path(self._target.root, own))
        if holder.kind == "gradient":
            line = graph_keeping_line(path, self._target.line or 0)
        else:
            described = replace(described, line=holder.line or None)
            line = keeping_line(
                path,
                holder.variable,
                is_attribute="attribute" in holder.kind,
                near=holder.line,
                only_near=holder.kind in ("closure", "default", "local"),
            )
        return described if line is None else replace(described, kept_line=line.number, source=line.text)


def _look(root: ReachableTensor) -> tuple[object, ...]:
    """Return a key that tensors made by one line share."""
    made_by = root.tensor.grad_fn.name() if root.tensor.grad_fn is not None else None
    return root.leaf is None, tuple(root.tensor.shape), root.tensor.dtype, made_by


def _entries(holder: Holder) -> Iterable[Any]:
    """Return the entries of a retainer's innermost container."""
    innermost = holder.containers[-1] if holder.containers else ()
    return innermost.values() if isinstance(innermost, dict) else innermost


def _bound(holder: Holder, container: Any) -> int | None:
    """Return the maximum number of entries of a retainer, if it has one; None otherwise.

    The bound of a functools cache without hits does not count: its keys are always new.
    """
    if holder.kind == "cache":
        usage = holder.owner.cache_info()
        return usage.maxsize if usage.hits else None
    if isinstance(container, collections.deque):
        return container.maxlen
    attributes = getattr(holder.owner, "__dict__", None)
    if container is None or not isinstance(attributes, dict):
        return None
    for name in _CAPACITIES:
        bound = attributes.get(name)
        if isinstance(bound, int) and bound >= len(container) and is_compared(holder.filename, holder.line, name):
            return bound
    return None
