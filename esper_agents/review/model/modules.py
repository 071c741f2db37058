"""Facts about modules on the heap: modes, parts, trained parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.model.heap import ELEMENTS, ITEMS, MODE, UNKNOWN_MODE, Heap, HeapObject, Modes, ModeSetting
from esper_agents.review.model.knowledge import ResultKind
from esper_agents.review.model.values import Ref, Union, Value, alternatives

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODULE_LIKE = frozenset({ResultKind.MODULE, ResultKind.LAYERS})
FROZEN = "#frozen"
ACTS = "#acts"
# Modules whose parameters an optimizer was given.
GIVERS = "#givers"
UNKNOWN_PART = "#unknown"


def forward_target(heap: Heap, ref: Ref) -> Ref:
    """Return the module that a wrapper such as DistributedDataParallel runs; else the module itself."""
    seen = {ref.ident}
    while True:
        inner = heap[ref].fields.get("module")
        held = heap[ref]
        if (
            held.cls is not None
            or held.kind is not ResultKind.MODULE
            or not isinstance(inner, Ref)
            or inner.ident in seen
        ):
            return ref
        ref = inner
        seen.add(ref.ident)


def parts_of(heap: Heap, ref: Ref, *, with_unknown: bool = True) -> Iterator[Ref]:
    """Yield a module and the modules in it; objects of unknown kind in its fields count if asked for."""
    seen: set[int] = set()
    edge = [ref]
    while edge:
        each = edge.pop()
        if each.ident in seen:
            continue
        seen.add(each.ident)
        yield each
        for key, value in heap[each].fields.items():
            if key[0] in "#[":
                continue
            members = [one for one in alternatives(value) if isinstance(one, Ref)]
            edge += [one for one in members if _is_part(heap[one], with_unknown=with_unknown)]


def _is_part(held: HeapObject, *, with_unknown: bool) -> bool:
    if held.kind in _MODULE_LIKE:
        return True
    return with_unknown and held.kind is ResultKind.UNKNOWN and held.cls is None and not held.container


def givers_of(heap: Heap, given: Value) -> tuple[Ref, ...]:
    """Return the modules that give their parameters as they are, in a list, or in groups; none if one is unknown."""
    found: dict[Ref, None] = {}
    edge, seen = [given], set[Value]()
    for value in edge:
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, Union):
            edge += value.values
            continue
        fields = heap[value].fields if isinstance(value, Ref) else {}
        owner = fields.get("#owner")
        if isinstance(owner, Ref):
            found[owner] = None
            continue
        inner = [
            *(fields.get(ITEMS) or ()),
            *(fields[key] for key in (ELEMENTS, "#over", "['params']") if key in fields),
        ]
        if not inner:
            return ()
        edge += inner
    return tuple(found)


def owners_of(heap: Heap, ref: Ref) -> frozenset[int]:
    """Return the modules whose parameters an optimizer has, or a module itself, with their parts; empty if unknown."""
    roots = heap[ref].fields.get(GIVERS) or (ref,)
    found: set[int] = set()
    for root in roots:
        held = heap[root]
        if held.kind not in _MODULE_LIKE and ResultKind.MODULE not in held.evidence:
            return frozenset()
        found.update(each.ident for each in parts_of(heap, root))
    return frozenset(found)


def set_mode(heap: Heap, ref: Ref, setting: ModeSetting) -> None:
    """Write the mode of a module and of all modules in it."""
    modes: Modes = frozenset({setting})
    for each in parts_of(heap, ref):
        heap.write(heap[each].fields, MODE, modes)


def _sensitive(heap: Heap, ref: Ref) -> tuple[list[HeapObject], bool]:
    """Return the parts that act differently in the two modes, and whether all parts are known."""
    found: list[HeapObject] = []
    is_complete = True
    for each in parts_of(heap, ref):
        held = heap[each]
        is_complete = is_complete and not held.fields.get(UNKNOWN_PART)
        if held.cls is not None:
            if held.is_open:
                is_complete = False
            continue
        acts = held.fields.get(ACTS, held.facts.acts_by_mode if held.facts is not None else None)
        if acts is not None:
            if acts:
                found.append(held)
            continue
        if held.kind is not ResultKind.LAYERS and not held.fields.get("#holds"):
            is_complete = False
    return found, is_complete


def acts_by_mode(heap: Heap, ref: Ref) -> bool | None:
    """Return whether a module acts differently in the two modes, None if that is unknown."""
    found, is_complete = _sensitive(heap, ref)
    if found:
        return True
    held = heap[ref]
    if held.facts is not None and held.facts.acts_by_mode is False:
        return False
    return False if is_complete and (held.cls is not None or held.library) else None


def modes_of(heap: Heap, ref: Ref) -> Modes:
    """Return the possible modes of the parts that act by mode; of the module itself if no such part is known."""
    found, _ = _sensitive(heap, ref)
    modes: Modes = frozenset()
    for held in found:
        modes |= held.fields.get(MODE, UNKNOWN_MODE)
    return modes or heap[ref].fields.get(MODE, UNKNOWN_MODE)


def has_trainable(heap: Heap, ref: Ref) -> bool:
    """Return whether a run of a module records a graph for its own parameters, as far as is known."""
    held = heap[ref]
    if held.fields.get(FROZEN) is True:
        return False
    return held.facts is None or held.facts.has_parameters is not False
