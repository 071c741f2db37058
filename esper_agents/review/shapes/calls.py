"""What calls give: constructors, layers, methods, and functions of the reviewed files, followed inside."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.definitions import owner_of
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, root_of
from esper_agents.review.shapes import batches, layers
from esper_agents.review.shapes.callers import Callers
from esper_agents.review.shapes.facts import (
    GIVEN,
    UNKNOWN,
    Extent,
    Fields,
    Handed,
    Items,
    Layer,
    Many,
    Number,
    Object,
    Table,
    Tensor,
    Value,
    fresh,
    join,
)
from esper_agents.review.shapes.frames import Frame, Place, position_of
from esper_agents.review.shapes.given import Given
from esper_agents.review.shapes.methods import method
from esper_agents.review.shapes.outside import Outside
from esper_agents.review.shapes.sizes import Symbol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.review.tables import Call, Class, Function

_DEPTH = 6


# Methods of modules, and functions round them, that give back what they were given.
_FLUENT = frozenset(
    {"to", "cuda", "cpu", "eval", "train", "float", "half", "double", "bfloat16", "apply", "requires_grad_"}
)


_HEADS = ("fc", "classifier", "head", "heads")


_LIBRARIES = frozenset({"torch", "numpy", "math", "torchvision"})


# Methods by which something unknown is known to be a tensor, and what they tell.
_TELLING = frozenset(
    {
        "view",
        "reshape",
        "permute",
        "unsqueeze",
        "flatten",
        "gather",
        "transpose",
        "contiguous",
        "float",
        "long",
        "max",
        "argmax",
    }
    | {"softmax", "matmul", "bmm", "t", "expand", "masked_fill", "detach", "squeeze"}
)


class Calls(Outside, Callers):
    """Calls, by what is called."""

    def called(self, node: ast.Call, place: Place, frame: Frame) -> Value:
        """Return what a call gives."""
        name = resolve(dotted(node.func), frame.function)
        made = None if self._is_own(name, frame) else self.made_outside(name, node, place, frame)
        if made is not None:
            return made
        owner = self.index.class_named(name, frame.function.file) if "(" not in name else None
        if owner is not None and _has_namesakes(owner):
            return None
        if owner is not None:
            return self._constructed(owner, node, place, frame)
        if isinstance(node.func, ast.Attribute) and ("(" in name or root_of(name) not in _LIBRARIES):
            found = self._method(node.func, node, place, frame)
            if found is not None:
                return found
        module = self.of(node.func, place, frame) if not name.startswith("torch.") or "(" in name else None
        if isinstance(module, Layer | Object):
            return self.apply(module, self.arguments(node, place, frame), frame)
        return self._followed(node, place, frame) or self._headed(node, place, frame)

    def _is_own(self, name: str, frame: Frame) -> bool:
        """Return whether a name is that of a function of the reviewed files, whatever libraries call so."""
        if "(" in name or root_of(name) in _LIBRARIES:
            return False
        return self.index.function(name, frame.function.file) is not None

    def _constructed(self, owner: Class, node: ast.Call, place: Place, frame: Frame) -> Value:
        init = self.index.method(owner, "__init__")
        given = self.arguments(node, place, frame)
        if (
            init is None
            and not given.is_hidden
            and any(decorator.endswith("dataclass") for decorator in owner.decorators)
        ):
            names = [dotted(each.target) for each in owner.node.body if isinstance(each, ast.AnnAssign)]
            fields = dict(zip(names, given.values, strict=False)) | dict(given.named)
            return Object(owner, Frame(owner.file.functions[0], fields, None, frame.depth + 1))
        if init is None or given.is_hidden:
            return Object(owner)
        return Object(owner, self.entered(init, given, frame, made=None, skips_self=True))

    def entered(self, function: Function, given: Given, frame: Frame, made: Frame | None, *, skips_self: bool) -> Frame:
        """Return the frame of a function that is called with these arguments."""
        names = list(function.parameters)
        if skips_self and names[:1] in (["self"], ["cls"]):
            names = names[1:]
        # Behind `*` nobody knows which argument is which, nor which parameter is left as it is.
        listed: Iterable[Value] = (None,) * len(names) if given.is_hidden else given.values
        arguments: dict[str, Value] = dict(zip(names, listed, strict=False)) | dict(given.named)
        return Frame(function, arguments, made, frame.depth + 1)

    def apply(self, module: Value, given: Given, frame: Frame) -> Value:
        """Return what a layer or an object of a reviewed class gives when it is called."""
        if isinstance(module, Layer):
            return layers.applied(
                module, given.at(0, "input"), lambda part, value: self.apply(part, Given((value,), {}), frame)
            )
        if not isinstance(module, Object):
            return UNKNOWN if module is None else None
        forward = self.index.method(module.owner, "forward") or self.index.method(module.owner, "__call__")
        return self.entering(forward, given, frame, module) if forward is not None else None

    def entering(self, function: Function, given: Given, frame: Frame, module: Object | None) -> Value:
        """Return what a function gives for these arguments; sizes that have names in another object lose them."""
        # A network is followed through `*`, where a question starts: further down it costs more than it tells.
        if frame.depth >= _DEPTH or (given.is_hidden and (frame.depth > 0 or function.name != "forward")):
            return None
        made = module.made if module is not None else None
        inner = self.entered(function, given, frame, made, skips_self=module is not None)
        found = self.returned(inner)
        same = module is not None and module.owner is owner_of(frame.function)
        return found if made is not None or same else _without_names(found, function)

    def returned(self, frame: Frame) -> Value:
        """Return what a function gives back, every way out taken together."""
        function = frame.function
        if not function.returns or isinstance(function.node, ast.AsyncFunctionDef):
            return None
        return join(
            self.of(statement.value, Place(block, position_of(statement)), frame)
            if statement.value is not None
            else None
            for statement, block in function.returns
        )

    def _method(self, called: ast.Attribute, node: ast.Call, place: Place, frame: Frame) -> Value:  # noqa: C901, PLR0911 - one for each kind of value
        """Return what a method gives; None where the call is none, or nothing is known of it."""
        if dotted(called.value) == "super()":
            return None
        base = self.of(called.value, place, frame)
        name = called.attr
        match base:
            case Tensor() if name == "size" and node.args:
                return self._of_unknown(name, node, place, frame, base)
            case Tensor():
                found = method(name, base, self.arguments(node, place, frame))
                return found if found is not None else (Many(Number()) if name == "tolist" else UNKNOWN)
            case Layer() | Object() if name in _FLUENT and not (
                isinstance(base, Object) and self.index.method(base.owner, name)
            ):
                return base
            case Object():
                function = self.index.method(base.owner, name)
                if function is None:
                    return None
                return self.entering(function, self.arguments(node, place, frame), frame, base)
            case Layer() if name == "forward":
                return self.apply(base, self.arguments(node, place, frame), frame)
            case Table():
                return batches.column_of(name, self.arguments(node, place, frame))
            case Fields(values) if name == "get" and node.args and isinstance(node.args[0], ast.Constant):
                return values.get(str(node.args[0].value))
            case Extent(tensor) if name == "numel":
                return method(name, tensor, Given((), {}))
            case None | Handed():
                return self._of_unknown(name, node, place, frame, GIVEN)
            case _:
                return None

    def _of_unknown(self, name: str, node: ast.Call, place: Place, frame: Frame, base: Tensor) -> Value:
        """Return what a method of something unknown gives, where only tensors have a method of that name."""
        if name in {"fit_transform", "transform"} and len(node.args) == 1:
            value = self.of(node.args[0], place, frame)
            is_table = isinstance(value, Tensor | Table)
            return Tensor((None, None), False, is_array=True) if is_table else None
        if name == "size" and node.args and isinstance(node.func, ast.Attribute):
            axis = self.arguments(node, place, frame).number(0, "dim")
            return self.size_read(node.func.value, axis, base, place, frame) if axis is not None else Number()
        if name in _TELLING and not self._followable(node, frame):
            return method(name, base, self.arguments(node, place, frame))
        return None

    def _followable(self, node: ast.Call, frame: Frame) -> bool:
        call = self._call(node, frame.function)
        return call is not None and bool(self.index.possible_callees(call))

    def _call(self, node: ast.Call, function: Function) -> Call | None:
        if function not in self._by_node:
            self._by_node[function] = {id(call.node): call for call in function.calls}
        return self._by_node[function].get(id(node))

    def _followed(self, node: ast.Call, place: Place, frame: Frame) -> Value:
        """Return what a function of the reviewed files gives."""
        call = self._call(node, frame.function)
        reached = self.index.callees(call) if call is not None else ()
        if len(reached) != 1:
            return None
        function = reached[0]
        if function.owner is not None and _has_namesakes(function.owner):
            return None
        own = owner_of(frame.function)
        is_own = call is not None and call.receiver in {"self", "super()"} and own is not None
        module = Object(own, frame.made) if is_own and own is not None else None
        if module is None and function.owner is not None:
            module = Object(function.owner)
        return self.entering(function, self.arguments(node, place, frame), frame, module)

    def _headed(self, node: ast.Call, place: Place, frame: Frame) -> Value:
        """Return what a ready-made network gives whose last layer was replaced, or whose classes were counted."""
        path = dotted(node.func)
        for head in _HEADS:
            layer = self._last_of(f"{path}.{head}", place, frame)
            if isinstance(layer, Layer) and layer.name == "Linear":
                return fresh((None, layers.size(layer, "out_features")))
        made = self.index.binding(path, frame.function, place.position[0]) if path else None
        if made is None or not isinstance(made.value, ast.Call) or made.is_unpacked:
            return None
        name = resolve(dotted(made.value.func), made.block.function)
        if not name.startswith(("torchvision.models.", "timm.create_model")):
            return None
        around = self.frame_of(made.block.function)
        given = self.arguments(made.value, Place(made.block, position_of(made.statement)), around)
        classes = given.at(-1, "num_classes")
        return fresh((None, classes.dim)) if isinstance(classes, Number) else None

    def _last_of(self, path: str, place: Place, frame: Frame) -> Value:
        """Return the last layer that is assigned to an attribute of a network: `net.fc`, `net.classifier[6]`."""
        for target in (path, f"{path}[]"):
            found = self.index.binding(target, frame.function, place.position[0])
            if found is not None and not found.is_unpacked and not found.is_augmented:
                function = found.block.function
                around = frame if function is frame.function else self.frame_of(function)
                value = self.of(found.value, Place(found.block, position_of(found.statement)), around)
                while isinstance(value, Layer) and value.name == "Sequential" and value.parts:
                    value = value.parts[-1]
                return value
        return None


def _without_names(value: Value, function: Function) -> Value:
    """Return a value without the sizes that have names of the class it came out of: another object's may be others."""
    owner = function.owner
    mark = f"{owner.name}.__init__." if owner is not None else f"{function.qualname}."
    match value:
        case Tensor():
            dims = tuple(
                None if isinstance(dim, Symbol) and any(name.startswith(mark) for name in dim.names) else dim
                for dim in value.dims
            )
            return replace(value, dims=dims)
        case Items(values):
            return Items(tuple(_without_names(each, function) for each in values))
        case _:
            return value


def _has_namesakes(owner: Class) -> bool:
    """Return whether a file has several classes of a name, inside functions most often: which is meant is not known."""
    return sum(cls.name == owner.name for cls in owner.file.classes) > 1
