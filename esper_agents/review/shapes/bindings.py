"""What names hold: by assignments that may reach, by unpacking, by the attributes of a class."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.definitions import owner_of
from esper_agents.review.names import dotted, root_of, walk
from esper_agents.review.shapes.arithmetic import combined
from esper_agents.review.shapes.batches import element
from esper_agents.review.shapes.calls import Calls
from esper_agents.review.shapes.facts import GIVEN, Extent, Handed, Items, Many, Number, Tensor, Value, join
from esper_agents.review.shapes.frames import END, Frame, Place, is_reshaped_in_place, place_after, place_of, reaching
from esper_agents.review.shapes.sizes import Dim, Symbol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Function


_GROWING = frozenset({"append", "extend", "insert", "appendleft"})


class Bindings(Calls):
    """Names and attributes of `self`."""

    def __init__(self, index: ProjectIndex) -> None:
        super().__init__(index)
        self._active: set[tuple[int, int]] = set()
        self._read: dict[Function, dict[str, list[Assignment]]] = {}

    def name(self, path: str, place: Place, frame: Frame) -> Value:
        """Return what a name or an attribute of `self` holds at a place."""
        if path in frame.bound:
            return frame.bound[path]
        if _is_drawn(path, place.block) or is_reshaped_in_place(frame.function, path):
            return None
        found = reaching(frame.function, path, place)
        values = [self._assigned(assignment, frame) for assignment in found.assignments]
        values = self._in_rounds(path, found.assignments, values, frame)
        if not found.is_whole:
            values += self._from_outside(path, frame, is_bound=bool(values))
        value = join(values)
        if isinstance(value, Items):
            value = self._grown(path, value, frame)
        if isinstance(value, Number) and value.dim is None and found.is_whole:
            return Number(_name_of(path, found.assignments, frame.function))
        return self._pinned(path, value, place, frame)

    def _in_rounds(
        self, path: str, assignments: tuple[Assignment, ...], values: list[Value], frame: Frame
    ) -> list[Value]:
        """Return values of which some are made of others in a loop: what holds in each round if it held before."""
        known = [value for value in values if value is not None]
        if not known or len(known) == len(values):
            return values
        before = join(known)
        for _ in range(2):
            inner = replace(frame, bound={**frame.bound, path: before}, known={})
            later = [self._assigned(each, inner) for each, old in zip(assignments, values, strict=True) if old is None]
            whole = join([before, *later])
            if whole is None:
                return values
            if whole == before:
                return [whole]
            before = whole
        return values

    def _grown(self, path: str, value: Items, frame: Frame) -> Value:
        """Return a list with what is added to it: many things of one kind, if they are."""
        added = [call for call in frame.function.calls if call.receiver == path and call.tail in _GROWING]
        if not added:
            return value
        if any(each.tail == "extend" or not each.node.args for each in added):
            return Many(None)
        return Many(join([*value.values, *(self.of(each.node.args[-1], place_of(each), frame) for each in added)]))

    def _from_outside(self, path: str, frame: Frame, *, is_bound: bool) -> list[Value]:
        """Return what a path holds that a function did not bind itself: a parameter, or a name around it."""
        function = frame.function
        if path in function.parameters:
            return [self.parameter(path, frame)]
        if root_of(path) in function.parameters and not path.startswith("self."):
            return [] if is_bound else [None]
        if path.startswith("self."):
            return [] if is_bound else [self._own(path, frame)]
        outer = function.outer.function if function.outer else None
        while outer is not None:
            if path in outer.assignments:
                around = self.frame_of(outer)
                end = Place(outer.block, END)
                return [
                    join(self._assigned(assignment, around) for assignment in reaching(outer, path, end).assignments)
                ]
            if path in outer.parameters:
                return [self.parameter(path, self.frame_of(outer))]
            outer = outer.outer.function if outer.outer else None
        return [] if is_bound else [self._imported(path, function)]

    def _imported(self, path: str, function: Function) -> Value:
        """Return what a name imported from a reviewed file holds."""
        name = function.file.imports.get(path, "")
        module = self.index.module(name.rpartition(".")[0]) if "." in name else None
        if module is None:
            return None
        tail = name.rpartition(".")[2]
        top = module.functions[0]
        return self.name(tail, Place(top.block, END), self.frame_of(top)) if tail in top.assignments else None

    def _own(self, path: str, frame: Frame) -> Value:
        """Return what an attribute of `self` holds, by every assignment to it in the class and its bases."""
        owner = owner_of(frame.function)
        if owner is None:
            return None
        for cls in self.index.lineage(owner).classes:
            found = [
                one
                for one in (*cls.attributes.get(path, ()), *cls.attributes.get(path[5:], ()))
                if not f"{dotted(one.value)}.".startswith(f"{path}.") and not _is_none(one.value)
            ]
            if found:
                return join(self._assigned(one, self._frame_for(one.block.function, frame)) for one in found)
        return None

    def _frame_for(self, function: Function, frame: Frame) -> Frame:
        made = frame.made
        if made is not None and made.function is function:
            return made
        return frame if frame.function is function else self.frame_of(function)

    def _assigned(self, found: Assignment, frame: Frame) -> Value:
        place = place_after(found)
        statement = found.statement
        if isinstance(statement, ast.AugAssign):
            return self._augmented(found, statement, place, frame)
        if isinstance(statement, ast.For):
            return picked(element(self.of(found.value, place, frame)), statement.target, found.node)
        if isinstance(statement, ast.With | ast.AsyncWith | ast.AsyncFor):
            return None
        value = self.of(found.value, place, frame)
        if not found.is_unpacked:
            return value
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        return next((picked(value, target, found.node) for target in targets if _holds(target, found.node)), None)

    def _augmented(self, found: Assignment, statement: ast.AugAssign, place: Place, frame: Frame) -> Value:
        """Return what `x += y` leaves in `x`: a tensor keeps its shape."""
        key = (id(statement), id(frame))
        if key in self._active or "." in found.target:
            return None
        self._active.add(key)
        before = self.name(found.target, place, frame)
        self._active.discard(key)
        if isinstance(before, Tensor):
            return before
        after = self.of(found.value, place, frame)
        return combined(statement.op, before, after) if isinstance(before, Number) else None

    def _pinned(self, path: str, value: Value, place: Place, frame: Frame) -> Value:
        """Return a tensor with the names of its sizes where the function reads them: `B, C, H, W = x.shape`."""
        if isinstance(value, Tensor) and not value.is_open and None not in value.dims:
            return value
        if value is not None and not isinstance(value, Tensor | Handed):
            return value
        for each in self.readings(frame.function).get(path, ()):
            target = each.statement.targets[0] if isinstance(each.statement, ast.Assign) else None
            here, there = reaching(frame.function, path, place), reaching(frame.function, path, place_after(each))
            if not isinstance(target, ast.Tuple | ast.List) or here != there:
                continue
            names = _names(target, frame.function.qualname, path)
            old = value if isinstance(value, Tensor) else GIVEN
            if any(isinstance(one, ast.Starred) for one in target.elts) or (old.rank or len(names)) != len(names):
                continue
            kept: Iterable[Dim] = old.dims if not old.is_open else (None,) * (len(names) - len(old.dims)) + old.dims
            dims = tuple(name if dim is None else dim for dim, name in zip(kept, names, strict=False))
            is_straight = old.is_open and not old.breaks and (old.is_given or old.is_fresh)
            places = tuple(range(len(dims))) if is_straight else old.places
            return replace(old, dims=dims, is_open=False, places=places, breaks=0)
        return value

    def readings(self, function: Function) -> dict[str, list[Assignment]]:
        """Return where a function reads all sizes of a tensor at once, by the tensor's path."""
        if function not in self._read:
            found: dict[str, list[Assignment]] = {}
            for assignments in function.assignments.values():
                for assignment in assignments:
                    path = dotted(assignment.value) if assignment.is_unpacked else ""
                    if path.endswith((".shape", ".size()")) and not getattr(assignment.value, "args", ()):
                        found.setdefault(path.rpartition(".")[0], []).append(assignment)
            self._read[function] = found
        return self._read[function]


def _name_of(path: str, assignments: tuple[Assignment, ...], function: Function) -> Dim:
    """Return a name for a number that nobody knows: one that a function works out once, by division, is one size."""
    if len(assignments) != 1 or len(function.assignments.get(path, ())) != 1:
        return None
    made = assignments[0]
    is_once = made.block.loop is None and made.block.function is function and isinstance(made.statement, ast.Assign)
    is_size = any(
        (isinstance(each, ast.BinOp) and isinstance(each.op, ast.FloorDiv | ast.Div))
        or (isinstance(each, ast.Attribute) and each.attr in {"shape", "size"})
        for each in walk(made.value)
    )
    return Symbol(1, (f"{function.qualname}.{path}@{made.line}",)) if is_once and is_size else None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _holds(target: ast.expr, node: ast.expr) -> bool:
    return any(each is node for each in walk(target))


def picked(value: Value, target: ast.expr, node: ast.expr) -> Value:
    """Return the part of a value that an unpacking hands to one of its targets."""
    if target is node:
        return value
    if not isinstance(target, ast.Tuple | ast.List) or any(isinstance(elt, ast.Starred) for elt in target.elts):
        return None
    for place, each in enumerate(target.elts):
        if _holds(each, node):
            return picked(_part(value, place, len(target.elts)), each, node)
    return None


def _part(value: Value, place: int, count: int) -> Value:
    match value:
        case Items(values):
            return values[place] if len(values) == count else None
        case Many(one):
            return one
        case Extent(tensor):
            return Number(tensor.dims[place]) if tensor.rank == count else Number()
        case Tensor():
            return element(value)
        case _:
            return None


def _names(target: ast.Tuple | ast.List, qualname: str, path: str) -> list[Dim]:
    """Return the names of sizes that an unpacking of a shape gives; a placeholder names none."""
    found: list[Dim] = []
    for place, each in enumerate(target.elts):
        name = each.id if isinstance(each, ast.Name) and each.id.strip("_") else f"{path}.shape[{place}]"
        found.append(Symbol(1, (f"{qualname}.{name}@{target.lineno}",)))
    return found


def _is_drawn(path: str, block: Block) -> bool:
    """Return whether a comprehension around a point binds a path."""
    around: Block | None = block
    while around is not None:
        if around.kind is BlockKind.COMPREHENSION and path in around.targets:
            return True
        around = around.parent
    return False
