"""What the parts of the interpreter ask of each other."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from esper_agents.review.shapes.facts import Items
from esper_agents.review.shapes.given import Given

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.shapes.facts import Object, Tensor, Value
    from esper_agents.review.shapes.frames import Frame, Place
    from esper_agents.review.tables import Call, Function


class Working(ABC):
    """What every part of the interpreter may ask for."""

    def __init__(self, index: ProjectIndex) -> None:
        self.index = index
        self._by_node: dict[Function, dict[int, Call]] = {}
        self._hops = 0
        self._callers: dict[Function, tuple[Call, ...]] = {}
        self._handed: dict[tuple[Function, str], Value] = {}

    @abstractmethod
    def of(self, node: ast.expr, place: Place, frame: Frame) -> Value:
        """Return what an expression is at a place."""

    @abstractmethod
    def frame_of(self, function: Function) -> Frame:
        """Return a function as anybody may call it."""

    @abstractmethod
    def size_read(self, node: ast.expr, axis: int, tensor: Tensor, place: Place, frame: Frame) -> Value:
        """Return one size of a tensor, under a name of its own where it is not known."""

    @abstractmethod
    def apply(self, module: Value, given: Given, frame: Frame) -> Value:
        """Return what a layer or an object of a reviewed class gives when it is called."""

    @abstractmethod
    def entering(self, function: Function, given: Given, frame: Frame, module: Object | None) -> Value:
        """Return what a function gives for these arguments, called from a frame."""

    @abstractmethod
    def returned(self, frame: Frame) -> Value:
        """Return what a function gives back, every way out taken together."""

    def arguments(self, node: ast.Call, place: Place, frame: Frame) -> Given:
        """Return what the arguments of a call are."""
        hidden = any(keyword.arg is None for keyword in node.keywords)
        values: list[Value] = []
        for arg in node.args:
            found = self.of(arg.value if isinstance(arg, ast.Starred) else arg, place, frame)
            if not isinstance(arg, ast.Starred):
                values.append(found)
            elif isinstance(found, Items):
                values += found.values
            else:
                hidden = True
        named = {
            keyword.arg: self.of(keyword.value, place, frame) for keyword in node.keywords if keyword.arg is not None
        }
        return Given(tuple(values), named, hidden)
