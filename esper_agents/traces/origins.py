"""Origins of values, followed back through assignments, calls, objects, loops and datasets."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.traces.program_index import (
    FROM_VALUES,
    CodeScope,
    OriginValue,
    ProgramIndex,
    called_name,
    is_empty_container,
    own_nodes,
    returned_values,
    way_to,
)
from esper_agents.traces.scopes import (
    FunctionNode,
    is_self,
    marked_node,
    parameter_default,
    parameters_of,
    statement_at,
)
from esper_agents.traces.settings_files import setting_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.traces.locate import LocatedFrame, ProjectSources

# Bounds of one chain, of all chains of a tracer, and of chains inside of each other.
_LONGEST_CHAIN = 40
_MOST_STEPS = 4_000
_MOST_DEPTH = 25
_MOST_REACHED = 80
_VALUES = (ast.Name, ast.Attribute, ast.Subscript)
_NAMESPACES = frozenset(("SimpleNamespace", "Namespace", "EasyDict", "AttrDict", "DotDict"))
# Methods whose result is the same tensor in another form.
_SAME_TENSOR = frozenset(
    (
        *(
            "to",
            "float",
            "half",
            "double",
            "long",
            "int",
            "bool",
            "bfloat16",
            "type",
            "type_as",
            "cpu",
            "cuda",
            "detach",
        ),
        *("clone", "contiguous", "view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "t"),
        *("expand", "expand_as", "repeat", "chunk", "split", "unbind", "tolist", "requires_grad_", "masked_fill"),
        *("sqrt", "pin_memory", "numpy", "item", "eval", "train", "compile", "items", "values", "keys", "copy"),
    )
)
_SAME_VALUES = frozenset(["list", "tuple", "sorted", "reversed", "iter", "cycle", "tqdm", "track", "set"])
_JOINING = frozenset(["stack", "cat", "concat", "pad_sequence"])
_PARTS = frozenset(["random_split", "Subset", "DistributedDataParallel", "DDP", "DataParallel", "compile"])
_WRAPPED_CONTAINERS = frozenset(["ModuleList", "ModuleDict", "Sequential", "deque"])


class OriginTracer:
    """Follows values back as far as the code decides where they come from."""

    def __init__(self, sources: ProjectSources, frames: Sequence[LocatedFrame] = ()) -> None:
        """Belong to a project and the frames of a trace in it, the innermost first."""
        self.index = ProgramIndex.of(sources)
        self.frames = frames
        self._steps_left = _MOST_STEPS
        self._depth = 0

    def frame_scope(self, number: int) -> CodeScope:
        """Return the scope of a frame, the innermost is 0."""
        return self.index.scope_at(self.frames[number].location, number)

    def chain(self, node: ast.expr, scope: CodeScope) -> list[OriginValue]:
        """Return an expression and those that its value comes from, the nearest first."""
        return self._chain(OriginValue(node, scope))

    def last(self, node: ast.expr, scope: CodeScope) -> OriginValue:
        """Return the expression that a value comes from."""
        return self.chain(node, scope)[-1]

    def _chain(self, value: OriginValue) -> list[OriginValue]:
        found = [value]
        seen = {(value.scope.path, id(value.node), value.depth)}
        if self._depth > _MOST_DEPTH:
            return found
        self._depth += 1
        while len(found) < _LONGEST_CHAIN and self._steps_left > 0:
            self._steps_left -= 1
            following = self._step(found[-1])
            key = (following.scope.path, id(following.node), following.depth) if following is not None else None
            if following is None or key in seen:
                break
            seen.add(key or ("", 0, 0))
            found.append(following)
        self._depth -= 1
        return found

    def reachable(self, node: ast.AST, scope: CodeScope) -> Iterator[OriginValue]:
        """Yield the expressions that the values in a piece of code are made from, the nearest first."""
        pending, seen = [(node, scope)], set[int]()
        while pending and len(seen) < _MOST_REACHED:
            part, inner = pending.pop(0)
            for value in (each for each in ast.walk(part) if isinstance(each, _VALUES)):
                if id(value) in seen or not isinstance(getattr(value, "ctx", ast.Load()), ast.Load):
                    continue
                seen.add(id(value))
                steps = self.chain(value, inner)[1:]
                yield from steps
                pending += [(steps[-1].node, steps[-1].scope)] if steps else []

    def class_of(self, value: OriginValue) -> tuple[str, ast.ClassDef] | None:
        """Return the class of the project that an object is an instance of."""
        end = self._chain(value)[-1]
        if end.depth == 0 and isinstance(end.node, ast.Call):
            return self.index.class_named(called_name(end.node))
        return None

    def _step(self, value: OriginValue) -> OriginValue | None:  # noqa: PLR0911 - one for each kind of expression
        if value.depth:
            following = self._step(OriginValue(value.node, value.scope))
            return replace(following, depth=following.depth + value.depth) if following is not None else None
        match value.node:
            case ast.Name(id=name):
                return self._name(name, value)
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if value.scope.owner is not None:
                return self._attribute(value.scope.owner, value.scope.path, name, value.scope.instance)
            case ast.Attribute(value=base, attr=name):
                if name in {"T", "data", "mT"}:
                    return OriginValue(base, value.scope)
                return setting_of(self, value) or self._field(base, name, value.scope)
            case ast.Subscript(value=base, slice=key):
                return setting_of(self, value) or self._item(OriginValue(base, value.scope), key)
            case ast.Call():
                return self._called(value.node, value.scope)
            case ast.NamedExpr(value=inner) | ast.Starred(value=inner) | ast.Await(value=inner):
                return OriginValue(inner, value.scope)
            case _:
                return None

    def _name(self, name: str, value: OriginValue) -> OriginValue | None:
        scope = value.scope
        body: ast.AST = scope.function or self.index.tree(scope.path)
        for comprehension in own_nodes(body):
            if isinstance(comprehension, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) and any(
                each is value.node for each in ast.walk(comprehension)
            ):
                for loop in comprehension.generators:
                    if (way := way_to(loop.target, name)) is not None and not any(
                        each is value.node for each in ast.walk(loop.iter)
                    ):
                        return self._at_way(self._element(OriginValue(loop.iter, scope)), way)
        if (found := self._assigned(name, body, value)) is not None:
            return found
        if scope.function is not None and name in parameters_of(scope.function):
            return self._parameter(name, scope)
        if scope.function is not None:
            outside = CodeScope(scope.path)
            tree = self.index.tree(scope.path)
            if (found := self._assigned(name, tree, OriginValue(value.node, outside), anywhere=True)) is not None:
                return found
        return self._imported(name, scope.path)

    def _assigned(self, name: str, body: ast.AST, value: OriginValue, *, anywhere: bool = False) -> OriginValue | None:
        own = statement_at(self.index.tree(value.scope.path), value.line)
        best: tuple[int, OriginValue | None] = (0, None)
        for node in own_nodes(body):
            line = getattr(node, "lineno", 0)
            if line < best[0] or (not anywhere and (line > value.line or node is own)):
                continue
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if (way := way_to(target, name)) is not None:
                        best = (line, self._at_way(OriginValue(node.value, value.scope), way))
            elif isinstance(node, ast.For) and (way := _loop_way(node, name, value.line)) is not None:
                best = (line, self._at_way(self._element(OriginValue(node.iter, value.scope)), way))
        return best[1]

    def _imported(self, name: str, path: str) -> OriginValue | None:
        for node in ast.walk(self.index.tree(path)):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self._module_value(alias.name, node.module or "")
        return None

    def _module_value(self, name: str, module: str) -> OriginValue | None:
        tail = module.replace(".", "/") + ".py"
        for path in self.index.paths:
            if path == tail or path.endswith(f"/{tail}") or (not module and path.endswith(".py")):
                for node in self.index.tree(path).body:
                    if isinstance(node, ast.Assign) and any(way_to(each, name) == () for each in node.targets):
                        return OriginValue(node.value, CodeScope(path))
                    if isinstance(node, ast.AnnAssign) and node.value and way_to(node.target, name) == ():
                        return OriginValue(node.value, CodeScope(path))
        return None

    def _at_way(self, value: OriginValue | None, way: tuple[int, ...]) -> OriginValue | None:
        """Return the part of a value that a nested target takes."""
        for position in way:
            value = self._item(value, ast.Constant(position)) if value is not None else None
        return value

    def _parameter(self, name: str, scope: CodeScope) -> OriginValue | None:
        function = scope.function
        if name in scope.bound or function is None:
            return scope.bound.get(name)
        default = parameter_default(function, name)
        own = OriginValue(default, CodeScope(scope.path)) if default is not None else None
        call = self._call_by_frame(scope)
        if call is None:
            callee = scope.owner.name if scope.owner is not None and function.name == "__init__" else function.name
            if callee in {"forward", "__call__", "__getitem__", "__iter__"}:
                return self._collated(name, scope)
            calls = self.index.calls_of(callee)
            if not calls:
                return self._collated(name, scope)
            if len(calls) != 1:
                return None
            path, node = calls[0]
            call = OriginValue(node, self.index.scope_of(node, path))
        bound = self.index.arguments(call, function, scope.owner)
        if bound is None:
            return None
        return bound.get(name, own)

    def _call_by_frame(self, scope: CodeScope) -> OriginValue | None:
        """Return the call by which the next frame of the trace runs a function."""
        number = scope.frame + 1
        if scope.frame < 0 or number >= len(self.frames) or scope.function is None:
            return None
        frame, outer = self.frames[number], self.frame_scope(number)
        tree = self.index.tree(frame.location.path)
        statement = marked_node(tree, frame.location.line, frame.frame.marked) or statement_at(
            tree, frame.location.line
        )
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        named = [node for node in calls if called_name(node) == scope.function.name]
        if not named and scope.owner is not None and scope.function.name in {"forward", "__call__"}:
            named = [node for node in calls if self._is_instance_call(node, outer, scope.owner)]
            named = named or ([statement] if isinstance(statement, ast.Call) else [])
            plain = [
                node for node in calls if isinstance(node.func, ast.Name) or is_self(getattr(node.func, "value", node))
            ]
            named = named or (plain if len(plain) == 1 else [])
        elif not named and scope.owner is not None and scope.function.name == "__init__":
            named = [node for node in calls if called_name(node) == scope.owner.name]
        return OriginValue(named[0], outer) if len(named) == 1 else None

    def _is_instance_call(self, call: ast.Call, scope: CodeScope, owner: ast.ClassDef) -> bool:
        found = (
            self.class_of(OriginValue(call.func, scope)) if isinstance(call.func, ast.Name | ast.Attribute) else None
        )
        return found is not None and found[1] is owner

    def _collated(self, name: str, scope: CodeScope) -> OriginValue | None:
        """Return the samples that a collate function receives."""
        function = scope.function
        names = [each for each in parameters_of(function or ast.Module([], [])) if each != "self"]
        callee = scope.owner.name if scope.owner is not None and function and function.name == "__call__" else ""
        callee = callee or (function.name if function is not None else "")
        if not names or names[0] != name:
            return None
        for path, call in self.index.calls_of("DataLoader"):
            outer = self.index.scope_of(call, path)
            for keyword in call.keywords:
                if keyword.arg == "collate_fn" and call.args:
                    end = self.last(keyword.value, outer).node
                    if callee in {ast.unparse(end), called_name(end) if isinstance(end, ast.Call) else ""}:
                        item = self._sample(OriginValue(call.args[0], outer))
                        return OriginValue(item.node, item.scope, item.depth + 1) if item is not None else None
        return None

    def _attribute(
        self, owner: ast.ClassDef | None, path: str, name: str, instance: OriginValue | None
    ) -> OriginValue | None:
        found = self.index.attribute(owner, path, name, instance) if owner is not None else None
        return self._at_way(found.value, found.way) if found is not None else None

    def _field(self, base: ast.expr, name: str, scope: CodeScope) -> OriginValue | None:
        """Return the attribute of an object: of a configuration, a named result, parsed options."""
        end = self.last(base, scope)
        if isinstance(end.node, ast.Call):
            if called_name(end.node) in {"parse_args", "parse_known_args"}:
                return self.index.option(name)
            found = self.index.class_named(called_name(end.node))
            if found is not None:
                return self._attribute(found[1], found[0], name, end)
            if called_name(end.node) in _NAMESPACES:
                passed = (each.value for each in end.node.keywords if each.arg == name)
                return next((OriginValue(each, end.scope) for each in passed), None)
        if isinstance(end.node, ast.Name) and (found := self.index.class_named(end.node.id)) is not None:
            return self.index.class_attribute(found[1], found[0], name, None)
        return None

    def _item(self, base: OriginValue | None, key: ast.expr) -> OriginValue | None:  # noqa: C901, PLR0911 - kinds of values
        """Return an item of a value; the value itself, as the whole of it, if the item is not known apart."""
        if base is None:
            return None
        end = self._chain(base)[-1]
        if is_empty_container(end.node):
            return self.index.stored_element(self._chain(base)) or base
        if not isinstance(key, ast.Constant):
            return base
        constant = key.value
        if end.depth:
            is_position = isinstance(constant, int) and not isinstance(constant, bool)
            return OriginValue(end.node, end.scope, end.depth - 1) if is_position else end
        node = end.node
        if isinstance(node, ast.Dict):
            for name, value in zip(node.keys, node.values, strict=True):
                if isinstance(name, ast.Constant) and name.value == constant:
                    return OriginValue(value, end.scope)
            return None
        if isinstance(node, ast.Call) and called_name(node) == "dict":
            return next((OriginValue(each.value, end.scope) for each in node.keywords if each.arg == constant), None)
        if isinstance(node, ast.Tuple | ast.List) and isinstance(constant, int):
            return OriginValue(node.elts[constant], end.scope) if -len(node.elts) <= constant < len(node.elts) else None
        if isinstance(node, ast.GeneratorExp | ast.ListComp):
            return OriginValue(node.elt, end.scope)
        if isinstance(node, ast.Call) and called_name(node) == "zip" and isinstance(constant, int):
            return self._zipped(node, end.scope, constant)
        return base

    def _zipped(self, node: ast.Call, scope: CodeScope, position: int) -> OriginValue | None:
        if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
            sample = self._element(OriginValue(node.args[0].value, scope))
            item = self._item(sample, ast.Constant(position))
            return OriginValue(item.node, item.scope, item.depth + 1) if item is not None else None
        return self._element(OriginValue(node.args[position], scope)) if position < len(node.args) else None

    def _element(self, value: OriginValue) -> OriginValue | None:  # noqa: PLR0911 - one for each kind of iterable
        """Return an element of what a loop runs over."""
        chain = self._chain(value)
        end = chain[-1]
        if end.depth:
            return OriginValue(end.node, end.scope, end.depth - 1)
        node, scope = end.node, end.scope
        if is_empty_container(node):
            return self.index.stored_element(chain)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return OriginValue(node.elt, scope)
        if isinstance(node, ast.List | ast.Tuple) and node.elts:
            return OriginValue(node.elts[0], scope)
        if not isinstance(node, ast.Call):
            return None
        name = called_name(node)
        if name == "enumerate" and node.args:
            inner = self._element(OriginValue(node.args[0], scope))
            return OriginValue(_pair(inner.node), inner.scope) if inner is not None and not inner.depth else None
        if name == "zip" and not any(isinstance(each, ast.Starred) for each in node.args):
            return OriginValue(
                ast.copy_location(ast.Tuple([_first_of(each) for each in node.args], ast.Load()), node), scope
            )
        if name == "DataLoader" and node.args:
            return self._batch(node, scope)
        if name in _WRAPPED_CONTAINERS and len(node.args) == 1:
            return self._element(OriginValue(node.args[0], scope))
        return self._sample(end)

    def _batch(self, call: ast.Call, scope: CodeScope) -> OriginValue | None:
        """Return what the collate function of a loader returns; a sample, if it has none of the project."""
        sample = self._sample(OriginValue(call.args[0], scope))
        collate = next((each.value for each in call.keywords if each.arg == "collate_fn"), None)
        if collate is None:
            return sample
        end = self.last(collate, scope)
        function: FunctionNode | None = None
        path, owner, instance = end.scope.path, None, None
        if isinstance(end.node, ast.Name):
            found = self.index.function_named(end.node.id, near=end.scope.path)
            path, function = found if found is not None else ("", None)
        elif isinstance(end.node, ast.Call) and (made := self.index.class_named(called_name(end.node))) is not None:
            (path, owner), instance = made, end
            function = self.index.method(owner, "__call__")
        if function is None:
            return None
        names = [each for each in parameters_of(function) if each != "self"]
        bound = {names[0]: OriginValue(sample.node, sample.scope, sample.depth + 1)} if sample and names else {}
        return self._returned(function, CodeScope(path, function, owner, -1, bound, instance))

    def _sample(self, value: OriginValue) -> OriginValue | None:
        """Return a sample of a dataset or an element of an object of the project."""
        end = self._chain(value)[-1]
        if not isinstance(end.node, ast.Call) or end.depth:
            return OriginValue(end.node, end.scope, end.depth - 1) if end.depth else None
        name = called_name(end.node)
        if name == "TensorDataset":
            return OriginValue(ast.copy_location(ast.Tuple(end.node.args, ast.Load()), end.node), end.scope)
        if name in _PARTS and end.node.args:
            return self._sample(OriginValue(end.node.args[0], end.scope))
        found = self.index.class_named(name)
        if found is None:
            return None
        path, owner = found
        for method in ("__getitem__", "__iter__"):
            if (function := self.index.method(owner, method)) is not None:
                return self._returned(function, CodeScope(path, function, owner, -1, {}, end))
        return None

    def _called(self, call: ast.Call, scope: CodeScope) -> OriginValue | None:  # noqa: PLR0911 - kinds of calls
        name = called_name(call)
        if isinstance(call.func, ast.Name):
            if name in _SAME_VALUES and call.args:
                return OriginValue(call.args[0], scope)
            if (found := self.index.function_named(name, near=scope.path)) is not None:
                return self._result(call, scope, *found)
        if (found_method := self.callee(call, scope)) is not None:
            return self._result(call, scope, *found_method)
        if isinstance(call.func, ast.Attribute) and name in _SAME_TENSOR and not _is_library(call.func.value):
            return OriginValue(call.func.value, scope)
        if name in _JOINING and call.args and (isinstance(call.func, ast.Name) or _is_library(call.func)):
            return self._element(OriginValue(call.args[0], scope))
        if ast.unparse(call.func) in FROM_VALUES and call.args:
            inner = OriginValue(call.args[0], scope)
            return self._element(inner) if isinstance(call.args[0], ast.ListComp) else inner
        if name in _PARTS and call.args:
            return OriginValue(call.args[0], scope)
        return None

    def callee(
        self, call: ast.Call, scope: CodeScope
    ) -> tuple[str, FunctionNode, ast.ClassDef, OriginValue | None] | None:
        """Return the method that a call of a method or of a module runs, with its file, class and object."""
        if not isinstance(call.func, ast.Attribute | ast.Name | ast.Subscript):
            return None
        if isinstance(call.func, ast.Attribute):
            if is_self(call.func.value) and scope.owner is not None:
                if (method := self.index.method(scope.owner, call.func.attr)) is not None:
                    return self.index.path_of(method) or scope.path, method, scope.owner, scope.instance
            elif not _is_library(call.func.value) and call.func.attr not in _SAME_TENSOR:
                end = self.last(call.func.value, scope)
                made = self.class_of(end)
                if made is not None and (method := self.index.method(made[1], call.func.attr)) is not None:
                    return made[0], method, made[1], end
        end = self.last(call.func, scope)
        if end.node is call.func or not isinstance(end.node, ast.Call):
            return None
        made = self.class_of(end)
        for name in ("forward", "__call__") if made is not None else ():
            if made is not None and (method := self.index.method(made[1], name)) is not None:
                return made[0], method, made[1], end
        return None

    def _result(  # noqa: PLR0917 - the parts of a callee
        self,
        call: ast.Call,
        scope: CodeScope,
        path: str,
        function: FunctionNode,
        owner: ast.ClassDef | None = None,
        instance: OriginValue | None = None,
    ) -> OriginValue | None:
        bound = self.index.arguments(OriginValue(call, scope), function, owner)
        inner = CodeScope(path, function, owner, -1, bound or {}, instance)
        values = returned_values(function)
        if any(isinstance(node, ast.Yield) for node in own_nodes(function)) and values:
            return OriginValue(values[-1], inner, 1)
        return self._returned(function, inner)

    def _returned(self, function: FunctionNode, scope: CodeScope) -> OriginValue | None:
        values = returned_values(function)
        if len(values) == 1 and is_self(values[0]) and scope.instance is not None:
            return scope.instance
        return OriginValue(values[0], scope) if len(values) == 1 else None


def _loop_way(loop: ast.For, name: str, line: int) -> tuple[int, ...] | None:
    """Return the positions by which the target of a loop around a line reaches a name; None if it does not."""
    return way_to(loop.target, name) if loop.lineno <= line <= (loop.end_lineno or 0) else None


def _is_library(node: ast.AST) -> bool:
    return ast.unparse(node).partition(".")[0] in {"torch", "nn", "F", "np", "dist", "math", "random"}


def _pair(node: ast.expr) -> ast.expr:
    """Return what `enumerate` makes of an element."""
    return ast.copy_location(ast.Tuple([ast.copy_location(ast.Constant(0), node), node], ast.Load()), node)


def _first_of(node: ast.expr) -> ast.expr:
    """Return the first element of an iterable, as an expression."""
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        return node.elts[0]
    return ast.copy_location(ast.Subscript(node, ast.copy_location(ast.Constant(0), node), ast.Load()), node)
