"""Works out what an expression is, lazily, for the one point at which a rule asks."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, walk
from esper_agents.review.shapes.arithmetic import combined, constant, negated
from esper_agents.review.shapes.batches import element
from esper_agents.review.shapes.bindings import picked
from esper_agents.review.shapes.facts import (
    UNKNOWN,
    Fields,
    Items,
    Kind,
    Layer,
    Many,
    Number,
    Object,
    Tensor,
    Value,
    join,
)
from esper_agents.review.shapes.frames import Frame, Place, position_of, reaching
from esper_agents.review.shapes.given import Given
from esper_agents.review.shapes.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

# How many expressions one question may lead to.
_STEPS = 400


# How many dimensions a tensor has at the most, as far as they are read one by one.
_MOST = 6


class Interpreter(Parts):
    """Values of expressions; what cannot be told is None, or a tensor of unknown shape."""

    def __init__(self, index: ProjectIndex) -> None:
        super().__init__(index)
        self._frames: dict[Function, Frame] = {}
        self._steps = 0

    def ask(self, node: ast.expr, call: Call) -> Value:
        """Return what an expression is where a call stands."""
        self._steps = 0
        return self.of(node, Place(call.block, position_of(call.statement)), self.frame_of(call.function))

    def given(self, call: Call) -> Given:
        """Return what the arguments of a call are."""
        self._steps = 0
        return self.arguments(call.node, Place(call.block, position_of(call.statement)), self.frame_of(call.function))

    def module_at(self, node: ast.expr, function: Function, line: int) -> Layer | Object | None:
        """Return the layer or network that an expression holds in front of a line of a function."""
        self._steps = 0
        found = self.of(node, Place(function.block, (line, 0)), self.frame_of(function))
        return found if isinstance(found, Layer | Object) else None

    def sizes_named(self, node: ast.expr, call: Call) -> list[Value]:
        """Return the names that the sizes of something unknown have where a call stands, by their place."""
        place, frame = Place(call.block, position_of(call.statement)), self.frame_of(call.function)
        return [self.size_read(node, axis, UNKNOWN, place, frame) for axis in range(_MOST)]

    def apply_to(self, module: Value, value: Value, call: Call) -> Value:
        """Return what a module that a call names gives for a value."""
        self._steps = 0
        return self.apply(module, Given((value,), {}), self.frame_of(call.function))

    def first_of(self, module: Object) -> list[Value]:
        """Return the layers to which the `forward` of an object hands its first argument as it is."""
        forward = self.index.method(module.owner, "forward")
        names = [parameter for parameter in forward.parameters if parameter != "self"] if forward is not None else []
        if forward is None or not names:
            return []
        frame = Frame(forward, {}, module.made, 1)
        found: list[Value] = []
        for call in forward.calls:
            argument = call.node.args[0] if call.node.args else None
            place = Place(call.block, position_of(call.statement))
            is_first = isinstance(argument, ast.Name) and argument.id == names[0]
            if is_first and call.block is forward.block and not reaching(forward, names[0], place).assignments:
                found.append(self.of(call.node.func, place, frame))
        return found

    def is_reached(self, module: Object) -> bool:
        """Return whether the reviewed files show what is handed to an object's `forward`."""
        forward = self.index.method(module.owner, "forward")
        names = [parameter for parameter in forward.parameters if parameter != "self"] if forward is not None else []
        if forward is None or not names:
            return False
        found = self.parameter(names[0], self.frame_of(forward))
        return isinstance(found, Tensor) and bool(found.dims)

    def calls_inside(self, module: Object, call: Call) -> Iterator[tuple[Call, Value, Value]]:
        """Yield what an object's `forward` surely runs when a call hands it these values, each with its first input."""
        forward = self.index.method(module.owner, "forward")
        if forward is None:
            return
        frame = self.entered(forward, self.given(call), self.frame_of(call.function), module.made, skips_self=True)
        for each in forward.calls:
            if each.block is forward.block and each.node.args and not each.has_splat():
                self._steps = 0
                place = Place(each.block, position_of(each.statement))
                yield each, self.of(each.node.func, place, frame), self.of(each.node.args[0], place, frame)

    def frame_of(self, function: Function) -> Frame:
        """Return a function as anybody may call it."""
        if function not in self._frames:
            self._frames[function] = Frame(function)
        return self._frames[function]

    def of(self, node: ast.expr, place: Place, frame: Frame) -> Value:
        """Return what an expression is at a place; None where it cannot be told."""
        identity = id(node)
        if identity in frame.known:
            return frame.known[identity]
        key = (identity, id(frame))
        self._steps += 1
        if key in self._active or self._steps > _STEPS:
            return None
        self._active.add(key)
        found = self._worked_out(node, place, frame)
        self._active.discard(key)
        if self._steps <= _STEPS:
            frame.known[identity] = found
        return found

    def _worked_out(self, node: ast.expr, place: Place, frame: Frame) -> Value:  # noqa: PLR0911, PLR0912, C901 - one for each kind of expression
        match node:
            case ast.Constant():
                return constant(node.value)
            case ast.Name():
                return self.name(node.id, place, frame)
            case ast.Attribute():
                return self.attribute(node, place, frame)
            case ast.Call():
                return self.called(node, place, frame)
            case ast.BinOp():
                return self._operation(node, place, frame)
            case ast.UnaryOp():
                return negated(node.op, self.of(node.operand, place, frame))
            case ast.Compare():
                return self._compared(node, place, frame)
            case ast.Subscript():
                return self.subscript(node, place, frame)
            case ast.Tuple() | ast.List():
                return self._listed(node.elts, place, frame)
            case ast.Dict():
                return self._fields(node, place, frame)
            case ast.DictComp():
                return self._renewed(node, place, frame)
            case ast.IfExp():
                return join([self.of(node.body, place, frame), self.of(node.orelse, place, frame)])
            case ast.NamedExpr():
                return self.of(node.value, place, frame)
            case ast.ListComp() | ast.GeneratorExp():
                return self._comprehension(node, place, frame)
            case _:
                return None

    def _listed(self, parts: list[ast.expr], place: Place, frame: Frame) -> Value:
        if any(isinstance(part, ast.Starred) for part in parts):
            return None
        return Items(tuple(self.of(part, place, frame) for part in parts))

    def _fields(self, node: ast.Dict, place: Place, frame: Frame) -> Value:
        pairs = zip(node.keys, node.values, strict=True)
        named = {
            key.value: value for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
        return Fields({key: self.of(value, place, frame) for key, value in named.items()}) if named else None

    def _renewed(self, node: ast.DictComp, place: Place, frame: Frame) -> Value:
        """Return a dictionary made of another, key by key: `{k: torch.as_tensor(v) for k, v in batch.items()}`."""
        source, target = node.generators[0].iter, node.generators[0].target
        if not (
            isinstance(source, ast.Call) and dotted(source.func).endswith(".items") and isinstance(target, ast.Tuple)
        ):
            return None
        base = self.of(source.func.value, place, frame) if isinstance(source.func, ast.Attribute) else None
        key, value = target.elts if len(target.elts) == 2 else (None, None)  # noqa: PLR2004 - a key and its value
        if not isinstance(base, Fields) or not isinstance(key, ast.Name) or not isinstance(value, ast.Name):
            return None
        if not isinstance(node.key, ast.Name) or node.key.id != key.id:
            return None
        found: dict[str, Value] = {}
        for name, each in base.values.items():
            bound = {**frame.bound, value.id: each}
            inner = Frame(frame.function, frame.arguments, frame.made, frame.depth, bound)
            found[name] = self.of(node.value, place, inner)
        return Fields(found)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp, place: Place, frame: Frame) -> Value:
        """Return a list of many things of one kind."""
        source = node.generators[0]
        if len(node.generators) > 1:
            return Many(None)
        one = element(self.of(source.iter, place, frame))
        targets = [each for each in walk(source.target) if isinstance(each, ast.Name)]
        bound = {target.id: picked(one, source.target, target) for target in targets}
        inner = Frame(frame.function, frame.arguments, frame.made, frame.depth, {**frame.bound, **bound})
        return Many(self.of(node.elt, place, inner))

    def _operation(self, node: ast.BinOp, place: Place, frame: Frame) -> Value:
        return combined(node.op, self.of(node.left, place, frame), self.of(node.right, place, frame))

    def _compared(self, node: ast.Compare, place: Place, frame: Frame) -> Value:
        if len(node.ops) != 1 or isinstance(node.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
            return Number()
        found = combined(ast.Add(), self.of(node.left, place, frame), self.of(node.comparators[0], place, frame))
        return replace(found, kind=Kind.BOOLEAN) if isinstance(found, Tensor) else Number()
