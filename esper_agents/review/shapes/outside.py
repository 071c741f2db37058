"""What comes from outside the reviewed files: torch, numpy, torchvision, plain Python."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.shapes import batches, layers
from esper_agents.review.shapes.facts import (
    UNKNOWN,
    Batches,
    Fields,
    Items,
    Layer,
    Many,
    Number,
    Object,
    Samples,
    Tensor,
    Value,
    fresh,
)
from esper_agents.review.shapes.frames import Frame, Place, position_of
from esper_agents.review.shapes.functions import function as function_of
from esper_agents.review.shapes.given import Given
from esper_agents.review.shapes.sizes import Symbol
from esper_agents.review.shapes.working import Working

if TYPE_CHECKING:
    from esper_agents.review.tables import Function

_WRAPPERS = frozenset(
    {
        "DataParallel",
        "DistributedDataParallel",
        "compile",
        "spectral_norm",
        "weight_norm",
        "orthogonal",
        "prepare",
        "script",
    }
)
_PLAIN = frozenset(
    {"int", "float", "round", "abs", "min", "max", "sum", "len", "pow", "enumerate", "zip", "range", "next", "getattr"}
    | {"dict"}
)
_NUMERIC = ("math.", "random.", "time.", "os.")
# Rewards and ends of episodes come one by one, as plain numbers.
_COUNTED = pattern(
    r"(?:\w+_)?(?:rewards?|dones?|terminals?|terminateds?|truncateds?|returns|rewards_to_go)(?:_(?:batch|list|b))?"
    r"|batch_(?:rewards?|dones?|returns)"
)
_TENSOR_MAKERS = frozenset({"tensor", "as_tensor", "FloatTensor", "Tensor", "array", "from_numpy", "BoolTensor"})
_POOLING = {
    f"{prefix}{kind.lower()}_pool{n}d": f"{'Adaptive' if prefix else ''}{kind}Pool{n}d"
    for prefix in ("", "adaptive_")
    for kind in ("Max", "Avg")
    for n in (1, 2, 3)
}
_TAKING_DATA = frozenset({"DataLoader", "Subset", "ConcatDataset", "random_split"})
_OUTSIDE = frozenset(
    {
        "DataLoader",
        "TensorDataset",
        "random_split",
        "Subset",
        "ConcatDataset",
        "tqdm",
        "list",
        "iter",
        "tuple",
        "reversed",
    }
)


class Outside(Working):
    """Calls of what no reviewed file defines."""

    def made_outside(self, name: str, node: ast.Call, place: Place, frame: Frame) -> Value:
        """Return what torch, numpy, plain Python and their like make."""
        tail = tail_of(name)
        if tail in _TENSOR_MAKERS and node.args and (counted := self._counted(node.args[0], place, frame)) is not None:
            return counted
        if tail in _WRAPPERS and node.args and not name.startswith("self."):
            return self.of(node.args[0], place, frame)
        if "(" in name or "[" in name:
            return None
        if name.startswith("torch.") and not name.startswith("torch.utils."):
            return self._of_torch(name, node, place, frame)
        if name in _PLAIN or name.startswith(_NUMERIC):
            return self._plain(name, node, place, frame)
        is_known = "." in name or tail in _OUTSIDE
        return self._of_library(name, node, place, frame) if is_known else None

    def _of_torch(self, name: str, node: ast.Call, place: Place, frame: Frame) -> Value:
        tail = tail_of(name)
        if not name.startswith("torch.nn.") or name.startswith(("torch.nn.functional.", "torch.nn.init.")):
            given = self.arguments(node, place, frame)
            if tail in _POOLING:
                named = {key: each for key, each in given.named.items() if key != "input"}
                return self.apply(layers.layer(_POOLING[tail], list(given.values[1:]), named), given, frame)
            found = function_of(tail, given)
            return UNKNOWN if found is None else found
        if tail in {"Parameter", "Buffer"} and node.args:
            return self.of(node.args[0], place, frame)
        return self._layer(tail, node, place, frame)

    def _of_library(self, name: str, node: ast.Call, place: Place, frame: Frame) -> Value:
        """Return what a loader, a data set or another library makes."""
        tail, given = tail_of(name), self.arguments(node, place, frame)
        if tail in _TAKING_DATA:
            values = tuple(self._as_data(value, frame) for value in given.values)
            given = replace(given, values=values, named={k: self._as_data(v, frame) for k, v in given.named.items()})
        collate = next((keyword.value for keyword in node.keywords if keyword.arg == "collate_fn"), None)
        if tail == "DataLoader" and collate is not None:
            return Batches(self._collated(collate, given.at(0, "dataset"), frame))
        mark = f"{frame.function.file.path}:{node.lineno}"
        return self._images(name, node, place, frame, batches.external(name, given, mark))

    def _collated(self, collate: ast.expr, data: Value, frame: Frame) -> Value:
        """Return what a collating function of the reviewed files makes of samples."""
        path = dotted(collate)
        name = resolve(path, frame.function)
        function = self.index.local_function(path, frame.function) or self.index.function(name, frame.function.file)
        if function is None or len(function.parameters) != 1 or not isinstance(data, Samples):
            return None
        return self.returned(Frame(function, {function.parameters[0]: Many(data.value)}, None, frame.depth + 1))

    def _as_data(self, value: Value, frame: Frame) -> Value:
        """Return a data set of the reviewed files as its samples, by its `__getitem__`."""
        if isinstance(value, Items):
            return Items(tuple(self._as_data(each, frame) for each in value.values))
        get = self.index.method(value.owner, "__getitem__") if isinstance(value, Object) else None
        if get is None or not isinstance(value, Object):
            return value
        return Samples(self.entering(get, Given((Number(),), {}), frame, value))

    def _layer(self, tail: str, node: ast.Call, place: Place, frame: Frame) -> Value:
        if tail == "Sequential" and len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
            return self._sequence_built(node.args[0].value, place, frame)
        if tail == "Sequential" and len(node.args) == 1 and isinstance(node.args[0], ast.Call):
            inner = node.args[0]
            arguments = list(inner.args) if tail_of(dotted(inner.func)) == "OrderedDict" else []
            return (
                layers.layer(tail, [self.of(argument, place, frame) for argument in arguments], {})
                if arguments
                else None
            )
        if tail == "Sequential" and any(isinstance(arg, ast.Starred) for arg in node.args):
            known = [None if isinstance(arg, ast.Starred) else self.of(arg, place, frame) for arg in node.args]
            return Layer(tail, {}, tuple(known))
        given = self.arguments(node, place, frame)
        return None if given.is_hidden else layers.layer(tail, list(given.values), dict(given.named))

    def _sequence_built(self, listed: ast.expr, place: Place, frame: Frame) -> Value:
        """Return a `Sequential` of a list that was gathered: only its last layer is known, where nothing hides it."""
        path, whole = dotted(listed), self.of(listed, place, frame)
        if isinstance(whole, Items):
            return Layer("Sequential", {}, whole.values)
        calls = [
            (position_of(call.statement), call.node.args[-1], call.block)
            for call in frame.function.calls
            if call.receiver == path and call.tail == "append" and call.node.args
        ]
        added = [
            (position_of(each.statement), each.value.elts[-1], each.block)
            for each in frame.function.assignments.get(path, ())
            if isinstance(each.value, ast.List) and each.value.elts
        ]
        earlier = [each for each in (*calls, *added) if each[0] < place.position]
        if not path or not earlier:
            return None
        listed_at = [each for each in frame.function.assignments.get(path, ()) if isinstance(each.value, ast.List)]
        kept = [call for call in frame.function.calls if call.receiver == path]
        is_straight = len(listed_at) == 1 == len(frame.function.assignments.get(path, ())) and all(
            each.tail == "append" and each.block is listed_at[0].block for each in kept
        )
        first = listed_at[0].value if is_straight else None
        if isinstance(first, ast.List) and not any(isinstance(elt, ast.Starred) for elt in first.elts):
            steps = [(position_of(listed_at[0].statement), elt) for elt in first.elts]
            steps += [(position, each) for position, each, _ in calls if position < place.position]
            parts = (self.of(each, Place(listed_at[0].block, position), frame) for position, each in steps)
            return Layer("Sequential", {}, tuple(parts))
        position, last, block = max(earlier, key=lambda each: each[0])
        if block not in place.block.chain():
            return None
        return Layer("Sequential", {}, (None, self.of(last, Place(block, position), frame)))

    def _counted(self, node: ast.expr, place: Place, frame: Frame) -> Value:
        """Return a column of rewards or ends of episodes; None for all else."""
        inner = node.elt if isinstance(node, ast.ListComp) else node
        path = tail_of(dotted(inner))
        is_batch = isinstance(node, ast.ListComp) or (isinstance(node, ast.Attribute) and "batch" in dotted(node.value))
        is_named = _COUNTED.fullmatch(path) is not None and (is_batch or path not in {"reward", "done", "terminal"})
        if not (
            is_named or _is_third(node, frame.function) or (is_batch and _is_assigned_to_column(node, frame.function))
        ):
            return None
        known = self.of(node, place, frame)
        if isinstance(known, Tensor | Items | Number) or (isinstance(known, Many) and isinstance(known.value, Tensor)):
            return None
        return fresh((Symbol(1, (f"{frame.function.qualname}.batch@{path}",)),))

    def _plain(self, name: str, node: ast.Call, place: Place, frame: Frame) -> Value:
        """Return what a function of plain Python gives; most give numbers."""
        if name == "zip" and len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
            one = batches.element(self.of(node.args[0].value, place, frame))
            return Items(tuple(Many(value) for value in one.values)) if isinstance(one, Items) else None
        given = self.arguments(node, place, frame)
        if name == "dict":
            return Fields(given.named) if given.named and not given.is_hidden else None
        first = given.at(0)
        found: Value = Number()
        match name:
            case "len":
                is_known = isinstance(first, Tensor) and not first.is_open and bool(first.dims)
                found = Number(first.dims[0] if is_known and isinstance(first, Tensor) else None)
                found = Number(len(first.values)) if isinstance(first, Items) else found
            case "enumerate":
                found = Many(Items((Number(), batches.element(first))))
            case "zip":
                found = (
                    None if given.is_hidden else Many(Items(tuple(batches.element(value) for value in given.values)))
                )
            case "range":
                found = Many(Number())
            case "next":
                found = batches.element(first)
            case "getattr":
                found = None
            case "abs" | "int" if isinstance(first, Tensor | Number):
                found = first if isinstance(first, Number) or name == "abs" else Number()
            case _:
                pass
        return found

    def _images(self, name: str, node: ast.Call, place: Place, frame: Frame, found: Value) -> Value:
        """Return a collection of torchvision with the shape of its images, where nothing resizes them."""
        shape = batches.image_shape(tail_of(name)) if isinstance(found, Samples) else ()
        transform = next((keyword.value for keyword in node.keywords if keyword.arg == "transform"), None)
        if not shape or transform is None or not isinstance(found, Samples):
            return found
        steps = self._transforms(transform, place, frame)
        if not batches.keeps_size(steps):
            return found
        return Samples(Items((fresh(shape), Number())))

    def _transforms(self, node: ast.expr, place: Place, frame: Frame) -> list[str]:
        """Return the last names of all that makes up a transform; empty where that is not in sight."""
        for origin in self.index.origins(node, frame.function, place.position[0]):
            calls = [each for each in walk(origin.value) if isinstance(each, ast.Call)]
            names = [each for each in walk(origin.value) if isinstance(each, ast.Name)]
            heads = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
            roots = {root_of(dotted(call.func)) for call in calls}
            if calls and all(name.id in heads | roots for name in names):
                return [tail_of(dotted(call.func)) for call in calls]
        return []


def _is_third(node: ast.expr, function: Function) -> bool:
    """Return whether a name is the reward of transitions taken apart: `s, a, r, s2, d = zip(*batch)`."""
    if not isinstance(node, ast.Name) or node.id not in {"r", "rew", "rews", "d"}:
        return False
    return any(
        each.is_unpacked and isinstance(each.value, ast.Call) and dotted(each.value.func) in {"zip", "map"}
        for each in function.assignments.get(node.id, ())
    )


def _is_assigned_to_column(node: ast.expr, function: Function) -> bool:
    """Return whether what a list goes into gets the name of a column of rewards."""
    return any(
        _COUNTED.fullmatch(tail_of(path)) is not None and any(part is node for part in walk(assignment.value))
        for path, assignments in function.assignments.items()
        for assignment in assignments
        if not assignment.is_unpacked
    )
