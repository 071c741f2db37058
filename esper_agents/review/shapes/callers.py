"""What parameters hold: what a call gave them, or what all callers in sight do."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.index import argument_for
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.shapes import batches
from esper_agents.review.shapes.facts import Handed, Many, Number, Object, Value, join
from esper_agents.review.shapes.frames import Frame, Place, place_of
from esper_agents.review.shapes.sizes import Symbol
from esper_agents.review.shapes.working import Working

if TYPE_CHECKING:
    from esper_agents.review.tables import Call, Function

_CALLERS = 4
_LISTS = frozenset({"list", "List", "Sequence", "Iterable"})
_MODEL = pattern(r"(?:\w+_)?(?:model|net|network|classifier|regressor)")
_PART = pattern(r"Loss|Criterion|EMA|Block|Layer|Norm|Wrapper|Embed|Attention|Head|Augment")


class Callers(Working):
    """Parameters."""

    def parameter(self, name: str, frame: Frame) -> Value:
        """Return what a parameter holds: what the call gave it, else what all callers in sight give it."""
        function = frame.function
        if frame.arguments is not None:
            if name in frame.arguments:
                return frame.arguments[name]
            default = _default(function, name)
            return self.of(default, Place(function.block, (0, 0)), frame) if default is not None else None
        found = self._handed.get((function, name)) or self._from_callers(name, function)
        found = found or self._from_loader(name, function)
        found = found or _annotated(function, name)
        if found is None and _MODEL.fullmatch(name):
            found = self._lone_network(function)
        if found is None:
            found = Handed(Symbol(1, (f"{function.qualname}.{name}@{function.file.path}",)))
        if not self._hops:
            self._handed[function, name] = found
        return found

    def _lone_network(self, function: Function) -> Value:
        """Return the one network that a file defines, where a parameter called `model` can hardly be another."""
        owners = [cls for cls in function.file.classes if self.index.is_module(cls) and "forward" in cls.methods]
        made = {call.tail for owner in owners for method in owner.methods.values() for call in method.calls}
        whole = [owner for owner in owners if owner.name not in made and _PART.search(owner.name) is None]
        return Object(whole[0]) if len(whole) == 1 else None

    def _from_callers(self, name: str, function: Function) -> Value:
        calls = self._sure_callers(function)
        if not calls or self._hops >= _CALLERS:
            return None
        self._hops += 1
        values: list[Value] = []
        for call in calls:
            argument = argument_for(call, function, name)
            default = _default(function, name)
            if argument is not None:
                values.append(self.of(argument, place_of(call), self.frame_of(call.function)))
            elif default is not None and not call.has_splat():
                values.append(self.of(default, Place(function.block, (0, 0)), self.frame_of(function)))
            else:
                values.append(None)
        self._hops -= 1
        return join(values) if all(value is not None for value in values) else None

    def _from_loader(self, name: str, function: Function) -> Value:
        """Return the batch that a framework hands to a step, by the loader given to `fit` or made by the class."""
        owner = function.owner
        is_step = function.name in {"training_step", "validation_step"} and function.parameters[1:2] == (name,)
        if owner is None or not is_step:
            return None
        own = self.index.method(owner, "train_dataloader")
        if own is not None:
            return batches.element(self.returned(self.frame_of(own)))
        for call in self.index.calls_ending("fit"):
            model, loader = call.argument(0, "model"), call.argument(1, "train_dataloaders")
            if model is None or loader is None or self.index.class_of(model, call.function, call.line) is not owner:
                continue
            value = self.of(loader, place_of(call), self.frame_of(call.function))
            source = self.index.method(value.owner, "train_dataloader") if isinstance(value, Object) else None
            if source is not None and isinstance(value, Object):
                value = self.returned(Frame(source, {}, value.made, 1))
            return batches.element(value)
        return None

    def _sure_callers(self, function: Function) -> tuple[Call, ...]:
        """Return the calls of a function; none where some are not sure, or they are many."""
        if function not in self._callers:
            self._callers[function] = self._find_callers(function)
        return self._callers[function]

    def _find_callers(self, function: Function) -> tuple[Call, ...]:
        if function.owner is not None and function.name in {"forward", "__call__"}:
            found = self._calls_of_objects(function)
        else:
            found = self.index.callers(function)
        if len(found) > _CALLERS or (
            function.name != "__init__" and any(function not in self.index.callees(each) for each in found)
        ):
            return ()
        return found

    def _calls_of_objects(self, forward: Function) -> tuple[Call, ...]:
        """Return the calls that run a module's `forward`, found by the names its objects are given."""
        owner = forward.owner
        names: dict[str, None] = {}
        for made in self.index.calls_ending(owner.name) if owner is not None else ():
            if self.index.class_called(made.node, made.function) is not owner:
                continue
            statement = made.statement
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            names |= dict.fromkeys(tail_of(dotted(target)) for target in targets)
        calls = tuple(self.index.calls_ending(*(name for name in names if name)))
        return tuple(call for call in calls if forward in self.index.callees(call)) if len(calls) < 50 else ()  # noqa: PLR2004 - a common name


def _default(function: Function, name: str) -> ast.expr | None:
    """Return the default of a parameter; None where it has none."""
    if isinstance(function.node, ast.Module):
        return None
    arguments = function.node.args
    listed = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip((each.arg for each in reversed(listed)), reversed(arguments.defaults), strict=False))
    named = {
        each.arg: value
        for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if value is not None
    }
    return (defaults | named).get(name)


def _annotated(function: Function, name: str) -> Value:
    """Return what the annotation of a parameter says, where that is plain numbers."""
    if isinstance(function.node, ast.Module):
        return None
    arguments = function.node.args
    listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    node = next((each.annotation for each in listed if each.arg == name), None)
    if isinstance(node, ast.Name) and node.id == "float":
        return Number()
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and node.slice.id in {"int", "float"}:
        return Many(Number()) if tail_of(dotted(node.value)) in _LISTS else None
    return None
