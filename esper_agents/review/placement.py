"""Where tensors live: on the host, or on the device that the model and its inputs were moved to."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.devices import holds_parameters, is_moved, is_part, moves
from esper_agents.review.index import resolve
from esper_agents.review.making import MAKING, has_rows, made_place
from esper_agents.review.named_places import MOVED_ALONG, NamedPlaces
from esper_agents.review.names import dotted, root_of, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.pieces import keeps_dimensions, operands_of
from esper_agents.review.places import DEVICE, MIXING, NUMBER, UNKNOWN, Place, Where, agreed, joined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Function

_HOPS = 2
_NUMBERS = frozenset({"item", "tolist", "size", "dim", "numel", "stride", "numpy", "nelement", "ndimension", "is_cuda"})
_REDUCING = frozenset({"sum", "mean", "max", "min", "prod", "std", "var", "norm", "median", "all", "any", "trace"})
_OWNERS = frozenset({"self", "args", "cfg", "config", "opt", "options", "hparams", "accelerator", "trainer", "fabric"})
# Functions of torch whose results are no tensors, or lie where nothing here can say.
_ELSEWHERE = pattern(
    r"torch\.(?:_|cuda|load|utils|nn\.(?:[A-Z]|parameter|utils|modules|init)|distributed|distributions|jit|hub)"
)


class Places(NamedPlaces):
    """Where the values of one function live.

    Args:
        function: The function.
        index: The files of the review.
        hops: How many steps from function to function are followed.
    """

    def of(self, node: ast.expr, line: int) -> Place:
        """Return where the value of an expression lives that stands at a line."""
        key = (node, line)
        if key not in self._known:
            self._known[key] = UNKNOWN
            if self._hops < 0:
                return UNKNOWN
            self._known[key] = self._find(node, line)
        return self._known[key]

    def joined(self, parts: Iterable[ast.expr], line: int) -> Place:
        """Return where what is made of several values lives."""
        return joined([self.of(part, line) for part in parts])

    def elsewhere(self, function: Function) -> NamedPlaces:
        """Return where the values of another function live."""
        return places_of(function, self._index, self._hops - 1)

    def _find(self, node: ast.expr, line: int) -> Place:
        found = UNKNOWN
        match node:
            case ast.Constant():
                found = NUMBER
            case ast.Name() | ast.Attribute():
                found = self.read(node, line)
            case ast.Subscript(value=value):
                found = self._part_of(node, self.of(value, line))
            case ast.IfExp(body=body, orelse=orelse):
                found = agreed([self.of(body, line), self.of(orelse, line)])
            case ast.Call():
                found = self._called(node, line)
            case ast.GeneratorExp(generators=[only]) | ast.ListComp(generators=[only]):
                found = self._of_each(node.elt, only, line)
            case _:
                found = self.joined(operands, line) if (operands := operands_of(node)) else UNKNOWN
        return found

    def _of_each(self, each: ast.expr, drawn: ast.comprehension, line: int) -> Place:
        """Return where the values of a comprehension live that calls a method on each of several."""
        root = root_of(dotted(each))
        if isinstance(each, ast.Call) and isinstance(drawn.target, ast.Name) and root == drawn.target.id:
            found = self.of(drawn.iter, line)
            return found if found.where is Where.DEVICE else UNKNOWN
        return UNKNOWN

    def _part_of(self, node: ast.Subscript, whole: Place) -> Place:
        """Return where a part lives: one of a batch where the batch is, unless the parts are moved one by one."""
        if whole.where is Where.UNKNOWN and keeps_dimensions(node.slice):
            return self._of_rows(node.value, node.lineno)
        if whole.where is not Where.HOST:
            return whole
        if isinstance(whole.source, ast.Name):
            path = dotted(node.value)
            is_moved_whole = any(call.receiver == path for call in moves(self._function, self._index))
            is_part = isinstance(node.slice, ast.Constant) and not is_moved_whole
            return whole if is_part and f"{path}[]" not in self._function.assignments else UNKNOWN
        return whole if keeps_dimensions(node.slice) else UNKNOWN

    def _of_rows(self, node: ast.expr, line: int) -> Place:
        """Return where the rows live that an index takes of a tensor that a call made: where the tensor is."""
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            whole = self.of(node.value, line)
            if whole.where is Where.HOST and isinstance(whole.source, ast.Call):
                return whole
        return UNKNOWN

    def _called(self, node: ast.Call, line: int) -> Place:
        name = resolve(dotted(node.func), self._function)
        if tail_of(name) in MOVED_ALONG or _ELSEWHERE.match(name):
            return UNKNOWN
        if name in MAKING or tail_of(name) == "generate_square_subsequent_mask":
            told = next((keyword.value for keyword in node.keywords if keyword.arg == "device"), None)
            return self._told(told, node, line) if told is not None else made_place(node, name, self._function)
        if name.startswith(("torch.", "math.")) and "(" not in name:
            return _reduced(self._of_arguments(node, line), node, name)
        found = self._of_model(node, line)
        if found.where is Where.UNKNOWN and isinstance(node.func, ast.Attribute):
            found = self._method(node, node.func, line)
        return found if found.where is not Where.UNKNOWN else self._returned(node)

    def _of_model(self, node: ast.Call, line: int) -> Place:
        """Return where what a model or a part of one gives lives."""
        if self._is_moved_model(node):
            return Place(Where.DEVICE, node, self._function)
        if holds_parameters(node, self._function, self._index):
            return DEVICE
        if is_part(node, self._function, self._index):
            found = self._of_arguments(node, line)
            return found if found.where is Where.DEVICE else UNKNOWN
        return UNKNOWN

    def _method(self, node: ast.Call, called: ast.Attribute, line: int) -> Place:
        name = called.attr
        if name in {"cuda", "to"}:
            return Place(Where.DEVICE, node, self._function) if name == "cuda" else self._moved(node, called, line)
        receiver = self.of(called.value, line)
        if receiver.where is Where.UNKNOWN and name in {"view", "reshape", "unsqueeze", "expand"}:
            receiver = self._of_rows(called.value, line)
        is_reduced = name in _REDUCING and not node.args and not node.keywords and receiver.where is Where.HOST
        if name in _NUMBERS or is_reduced:
            return NUMBER
        if name == "squeeze" and receiver.where is Where.HOST and not node.args and not has_rows(receiver.source):
            return UNKNOWN
        if name == "cpu":
            return Place(Where.HOST, node, self._function) if receiver.where is not Where.NUMBER else NUMBER
        if name in MIXING and receiver.where is Where.HOST:
            others = [self.of(arg, line) for arg in node.args]
            return UNKNOWN if UNKNOWN in others else joined([receiver, *others])
        return self.of(node.args[0], line) if name == "type_as" and node.args else receiver

    def _moved(self, node: ast.Call, called: ast.Attribute, line: int) -> Place:
        told = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in {"device", "other"})]
        told = [each for each in told if not re.search(r"dtype|torch\.(?!device)\w+$", ast.unparse(each))]
        if not told:
            return self.of(called.value, line)
        return self._told(told[0], node, line)

    def _told(self, device: ast.expr, node: ast.Call, line: int) -> Place:
        """Return where a call puts a tensor that is told a device: by name, or as that of another tensor."""
        if isinstance(device, ast.Name):
            last = self._function.last_assignment(device.id, line)
            device = last.value if last is not None and _is_device_of(last.value) else device
        if _is_device_of(device) and isinstance(device, ast.Attribute):
            return self._beside(device.value, node, line)
        text = ast.unparse(device)
        if "cpu" in text and "cuda" not in text:
            return UNKNOWN
        is_named = not isinstance(device, ast.Name | ast.Attribute) or re.search(r"dev|rank|gpu|cuda", text.lower())
        return Place(Where.DEVICE, node, self._function) if is_named else self.of(device, line)

    def _beside(self, other: ast.expr, node: ast.Call, line: int) -> Place:
        """Return where a tensor is that is put where another is."""
        path = dotted(other)
        if path in _OWNERS or "model" in path or "parameters" in path:
            return Place(Where.DEVICE, node, self._function)
        place = self.of(other, line)
        is_given = place.where is Where.UNKNOWN and path in self._function.parameters
        return DEVICE if is_given or path.endswith((".weight", ".bias")) else place

    def _of_arguments(self, node: ast.Call, line: int) -> Place:
        parts = [
            *node.args,
            *(keyword.value for keyword in node.keywords if keyword.arg not in {"dim", "dtype", "device"}),
        ]
        return self.joined([part for part in parts if not isinstance(part, ast.Starred)], line)

    def _is_moved_model(self, node: ast.Call) -> bool:
        """Return whether a call runs a model that was surely moved to a device in sight."""
        return is_moved(node.func, self._function, self._index, node.lineno)

    def _returned(self, node: ast.Call) -> Place:
        call = self._calls.get(node)
        for called in self._index.callees(call) if call is not None else ():
            inside = self.elsewhere(called)
            places = [inside.of(each.value, each.lineno) for each, _ in called.returns if each.value is not None]
            if places and all(place.where is Where.HOST for place in places):
                return places[0]
            is_given = self._of_arguments(node, node.lineno).where is Where.DEVICE
            if is_given and places and all(place.where is Where.DEVICE for place in places):
                return DEVICE
        return UNKNOWN


def places_of(function: Function, index: ProjectIndex, hops: int = _HOPS) -> Places:
    """Return where the values of a function live, kept for all who ask."""
    return index.once(("places", function, hops), lambda: Places(function, index, hops))


def _reduced(place: Place, node: ast.Call, name: str) -> Place:
    is_reduced = tail_of(name) in _REDUCING and len(node.args) == 1 and not node.keywords
    return NUMBER if is_reduced and place.where is Where.HOST else place


def _is_device_of(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "device"
