"""Where what names and attributes hold lives: by what binds them, who hands it over, and who keeps it."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.devices import made_by, moved_attributes, moves_itself, registered
from esper_agents.review.host_batches import is_drawn_on_host, names_loader
from esper_agents.review.index import argument_for
from esper_agents.review.inputs import counts_something, follows_inputs, is_said_to_be_tensor, is_tensor, takes_inputs
from esper_agents.review.making import has_rows
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.pieces import position_of, stands_for_nothing
from esper_agents.review.places import DEVICE, NUMBER, UNKNOWN, Place, Where, agreed, of_all, of_callers

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Function

_NOT_VALUES = frozenset({"shape", "dtype", "ndim", "device", "requires_grad", "is_cuda", "layout"})
_SAME_VALUES = frozenset({"T", "mT", "H", "data", "real", "imag"})
# What a module takes along when it is moved.
MOVED_ALONG = frozenset({"Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer"})
# How many callers are asked what they hand over.
_CALLERS = 6


class NamedPlaces(ABC):
    """Where the values of one function live that have names.

    Args:
        function: The function.
        index: The files of the review.
        hops: How many steps from function to function are followed.
    """

    def __init__(self, function: Function, index: ProjectIndex, hops: int) -> None:
        self._function = function
        self._index = index
        self._hops = hops
        self._owner = owner_of(function)
        self._calls = {call.node: call for call in function.calls}
        self._known: dict[tuple[ast.expr, int], Place] = {}

    @abstractmethod
    def of(self, node: ast.expr, line: int) -> Place:
        """Return where the value of an expression lives that stands at a line."""

    @abstractmethod
    def elsewhere(self, function: Function) -> NamedPlaces:
        """Return where the values of another function live."""

    def read(self, node: ast.Name | ast.Attribute, line: int) -> Place:
        """Return where what a name or an attribute holds lives, on a line."""
        if isinstance(node, ast.Attribute):
            if node.attr in _NOT_VALUES:
                return NUMBER
            if node.attr in _SAME_VALUES:
                return self.of(node.value, line)
        path = dotted(node)
        if path.startswith("self.") and not self._function.assignments.get(path):
            return self._attribute(path)
        found = self._index.bindings(path, self._function, line)
        above = [
            assignment
            for assignment in found.assignments
            if assignment.line < line or assignment.block.function is not self._function
        ]
        known = {each: self._assigned(each) for each in above or found.assignments}
        for each, place in known.items():
            if place.where is Where.HOST and stands_for_nothing(each, path):
                return place
        places = list(known.values())
        if not found.is_whole or not places:
            places.append(self._parameter(path))
        return agreed(places)

    def _appended(self, path: str) -> Place:
        """Return where the tensors live that are appended to a list."""
        values = [
            (call.node.args[0], call.line)
            for call in self._function.calls
            if call.receiver == path and call.tail == "append" and call.node.args
        ]
        return agreed([self.of(value, line) for value, line in values])

    def _assigned(self, found: Assignment) -> Place:
        if found.block.function is not self._function:
            return UNKNOWN
        if isinstance(found.statement, ast.For | ast.AsyncFor):
            return self._drawn(found)
        value = found.value
        if isinstance(value, ast.List) and not value.elts:
            return self._appended(found.target)
        if found.is_augmented:
            return self.of(value, found.line) if self.of(value, found.line).where is Where.DEVICE else UNKNOWN
        if found.is_unpacked:
            return self._unpacked(found)
        return self.of(value, found.line)

    def _unpacked(self, found: Assignment) -> Place:
        """Return where one of the values lives that a statement takes apart."""
        value = found.value
        if isinstance(value, ast.Call):
            return self._element(value, found)
        place = self.of(value, found.line)
        is_whole = isinstance(value, ast.Attribute)
        return place if is_whole or place.where is Where.DEVICE or _is_drawn(value, self._function) else UNKNOWN

    def _element(self, value: ast.Call, found: Assignment) -> Place:
        """Return where one of the values lives that a call hands back together."""
        position = position_of(found)
        call = self._calls.get(value)
        for called in self._index.callees(call) if call is not None and position is not None else ():
            inside = self.elsewhere(called)
            tuples = [each.value for each, _ in called.returns if isinstance(each.value, ast.Tuple)]
            if tuples and len(tuples) == len(called.returns) and position is not None:
                parts = [(each.elts[position], each.lineno) for each in tuples if position < len(each.elts)]
                return of_all(inside.of(part, line) for part, line in parts)
        return self.of(value, found.line)

    def _drawn(self, found: Assignment) -> Place:
        """Return where what a loop draws lives: a loader's batches on the host, if the loop moves part of them."""
        over = found.value
        tail = tail_of(dotted(over))
        position = position_of(found)
        if tail == "zip" and isinstance(over, ast.Call) and position is not None and position < len(over.args):
            drawn = self.of(over.args[position], found.line)
            return drawn if drawn.where is not Where.HOST or has_rows(drawn.source) else UNKNOWN
        if tail in {"range", "enumerate"} and not names_loader(over):
            return NUMBER
        whole = self.of(over, found.line)
        if whole.where is Where.DEVICE:
            return whole
        on_host = is_drawn_on_host(found, self._function, self._index)
        return Place(Where.HOST, found.node, self._function) if on_host else UNKNOWN

    def _parameter(self, path: str) -> Place:
        function = self._function
        if path not in function.parameters or path in {"self", "cls"}:
            return UNKNOWN
        if takes_inputs(function, self._index):
            is_input = not counts_something(path) and is_tensor(path, function, self._index)
            return DEVICE if is_input and not _is_elsewhere(self._handed(path)) else UNKNOWN
        places = self._handed(path)
        found = of_callers(places)
        if found.where is Where.UNKNOWN and not _is_elsewhere(places) and self._takes_any_device(path):
            return DEVICE
        return found

    def _handed(self, parameter: str) -> list[Place]:
        """Return where the values live that the callers hand to a parameter."""
        if self._hops <= 0:
            return []
        calls = self._index.callers(self._function)[:_CALLERS]
        handed = [(call, argument_for(call, self._function, parameter)) for call in calls]
        return [self.elsewhere(call.function).of(value, call.line) for call, value in handed if value is not None]

    def _takes_any_device(self, path: str) -> bool:
        is_told = is_said_to_be_tensor(path, self._function) and not counts_something(path)
        return is_told and follows_inputs(self._function, self._index)

    def _attribute(self, path: str) -> Place:
        owner = self._owner
        if owner is None or path.count(".") > 1 or moves_itself(owner, self._index):
            return UNKNOWN
        if path.removeprefix("self.") in registered(owner, self._index):
            return DEVICE if takes_inputs(self._function, self._index) else UNKNOWN
        found = [each for one in self._index.lineage(owner).classes for each in one.attributes.get(path, ())]
        if any(tail_of(made_by(each.value, each.block.function)) in MOVED_ALONG for each in found):
            return DEVICE if takes_inputs(self._function, self._index) else UNKNOWN
        if path.removeprefix("self.") in moved_attributes(self._index):
            return UNKNOWN
        return of_all(self._kept(each) for each in found if not each.is_augmented)

    def _kept(self, found: Assignment) -> Place:
        """Return where an attribute's value lives, by one of the statements that bind it."""
        inside = self.elsewhere(found.block.function)
        is_split = found.is_unpacked and isinstance(found.value, ast.Call)
        return inside.of(found.value, found.line) if is_split or not found.is_unpacked else UNKNOWN


def _is_elsewhere(places: list[Place]) -> bool:
    """Return whether some caller surely hands over what is not on the device."""
    return any(place.where in {Where.HOST, Where.NUMBER} for place in places)


def _is_drawn(value: ast.expr, function: Function) -> bool:
    """Return whether an expression is what a loop draws: `x, y = batch`."""
    return any(
        isinstance(each.statement, ast.For | ast.AsyncFor) for each in function.assignments.get(dotted(value), ())
    )
