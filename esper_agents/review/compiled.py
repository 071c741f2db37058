"""Which functions of the reviewed files run under `torch.compile`, and where that was asked for."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.review.conditions import tests_around
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, walk
from esper_agents.review.objects import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_CONTAINERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.modules.container.Sequential"})
_COMPILERS = frozenset({"torch.compile", "torch.compile()", "torch._dynamo.optimize()"})
# What leaves the graph on purpose; nothing inside it is compiled.
_OUTSIDE = frozenset(
    {
        "torch.compiler.disable",
        "torch._dynamo.disable",
        "torch.jit.ignore",
        "torch.jit.unused",
        "torch.compiler.assume_constant_result",
    }
)


@dataclass(frozen=True, slots=True)
class CompiledBy:
    """Where it was asked to compile a function.

    Attributes:
        path: The file.
        line: The line.
        is_direct: Whether the function itself was named there, and was not reached through calls.
        is_whole: Whether `fullgraph=True` was asked for, which turns a graph break into an error.
        is_static: Whether `dynamic=False` was asked for, so that every number and size is compiled in.
        is_sometimes: Whether a call on the way to it stands under an `if`.
        calls: How many calls lie between; those of modules that a compiled one is built of do not count.
    """

    path: str
    line: int
    is_direct: bool
    is_whole: bool
    is_static: bool = False
    is_sometimes: bool = False
    calls: int = 0


def compiled_functions(index: ProjectIndex) -> dict[Function, CompiledBy]:
    """Return the functions that run compiled, those named to `torch.compile` and those they call, nearest first."""
    return index.once("compiled functions", lambda: _compiled(index))


def compiled_in(file: FileTables, index: ProjectIndex) -> dict[Function, CompiledBy]:
    """Return the functions of one file that run compiled."""
    return index.once("compiled functions by file", lambda: _by_file(index)).get(file.path, {})


def _by_file(index: ProjectIndex) -> dict[str, dict[Function, CompiledBy]]:
    found: dict[str, dict[Function, CompiledBy]] = {}
    for function, by in compiled_functions(index).items():
        found.setdefault(function.file.path, {})[function] = by
    return found


def _compiled(index: ProjectIndex) -> dict[Function, CompiledBy]:
    found: dict[Function, CompiledBy] = {}
    for file in index.files.values():
        for function, by in _asked_for(file, index):
            found.setdefault(function, by)
    queue = list(found)
    for function in queue:
        by = found[function]
        for called, is_sometimes in _called_in(function, index):
            if called not in found and not _is_outside(called):
                found[called] = replace(
                    by,
                    is_direct=False,
                    is_sometimes=by.is_sometimes or is_sometimes,
                    calls=by.calls + (called.name != "forward"),
                )
                queue.append(called)
    return found


def _asked_for(file: FileTables, index: ProjectIndex) -> Iterator[tuple[Function, CompiledBy]]:
    for function in file.functions:
        for path, node in zip(function.decorators, _decorators(function), strict=False):
            if (path in _COMPILERS or _is_partial(node, function)) and not _says(node, "disable"):
                yield function, _by(file, node)
    for call in file.calls_ending("compile"):
        for function in _functions_compiled(call, index):
            yield function, _by(file, call.node)


def _by(file: FileTables, node: ast.expr) -> CompiledBy:
    is_static = _says(node, "dynamic", value=False)
    return CompiledBy(file.path, node.lineno, is_direct=True, is_whole=_says(node, "fullgraph"), is_static=is_static)


def _decorators(function: Function) -> list[ast.expr]:
    return [] if isinstance(function.node, ast.Module) else function.node.decorator_list


def _functions_compiled(call: Call, index: ProjectIndex) -> Iterator[Function]:
    """Yield what `torch.compile(it)`, or a module's own `it.compile()`, compiles."""
    if call.name == "torch.compile" and call.node.args and not _says(call.node, "disable"):
        yield from _behind(call.node.args[0], call, index)
    elif call.receiver and isinstance(call.node.func, ast.Attribute) and not call.name.startswith("torch."):
        owner = index.class_of(call.node.func.value, call.function, call.line)
        forward = index.method(owner, "forward") if owner is not None and index.is_module(owner) else None
        if forward is not None:
            yield forward
        elif owner is None:
            for origin in index.origins(call.node.func.value, call.function, call.line):
                yield from _contained(origin, index)


def _contained(origin: Origin, index: ProjectIndex) -> Iterator[Function]:
    """Yield the `forward` of the modules that a container is made of: `nn.Sequential(*[Block() for _ in range(4)])`."""
    value: ast.expr | None = origin.value
    while value is not None and (inner := wrapped(value)) is not None:
        value = inner
    if not isinstance(value, ast.Call) or resolve(dotted(value.func), origin.function) not in _CONTAINERS:
        return
    for each in walk(value):
        part = index.class_called(each, origin.function) if isinstance(each, ast.Call) else None
        forward = index.method(part, "forward") if part is not None and index.is_module(part) else None
        if forward is not None:
            yield forward


def _behind(value: ast.expr, call: Call, index: ProjectIndex) -> Iterator[Function]:
    """Yield the function that an expression names, or the `forward` of the module it holds."""
    for origin in index.origins(value, call.function, call.line):
        owner = index.class_of(origin.value, origin.function, origin.line)
        path = dotted(origin.value)
        method = _method(origin.value, origin.function, origin.line, index)
        found = (
            method
            or index.local_function(path, origin.function)
            or index.function(resolve(path, origin.function), origin.function.file)
        )
        if owner is not None:
            found = index.method(owner, "forward") or found
        if found is not None and not _is_outside(found):
            yield found
        elif found is None:
            yield from _contained(origin, index)


def _method(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> Function | None:
    if not isinstance(value, ast.Attribute):
        return None
    owner = index.class_of(value.value, function, line)
    return index.method(owner, value.attr) if owner is not None else None


def _called_in(function: Function, index: ProjectIndex) -> Iterator[tuple[Function, bool]]:
    """Yield what a compiled function runs, each with whether it does so under an `if` only.

    That is what it calls, and the `forward` of the modules its class is built of.
    """
    for call in function.calls:
        for called in index.callees(call):
            yield called, any(tests_around(call.block, function.block))
    owner = function.owner
    init = owner.methods.get("__init__") if owner is not None and function.name == "forward" else None
    for call in init.calls if init is not None else ():
        part = index.class_named(call.name, function.file)
        forward = index.method(part, "forward") if part is not None and index.is_module(part) else None
        if forward is not None:
            yield forward, False


def _is_outside(function: Function) -> bool:
    return any(path.removesuffix("()") in _OUTSIDE for path in function.decorators)


def _is_partial(node: ast.expr, function: Function) -> bool:
    """Return whether a decorator is `functools.partial(torch.compile, ...)`."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    outer = function.outer.function if function.outer else function
    is_partial = resolve(dotted(node.func), outer) == "functools.partial"
    return is_partial and resolve(dotted(node.args[0]), outer) in _COMPILERS


def _says(node: ast.expr, keyword: str, *, value: bool = True) -> bool:
    return isinstance(node, ast.Call) and any(
        each.arg == keyword and isinstance(each.value, ast.Constant) and each.value.value is value
        for each in node.keywords
    )


def compiled_called(call: Call, index: ProjectIndex) -> tuple[Function, CompiledBy] | None:
    """Return the compiled function that a call surely runs, with where compiling it was asked for; else None.

    A call of what `torch.compile(f)` returned, of a function decorated so, or of a module that was compiled.
    """
    known = compiled_functions(index)
    named = [*index.callees(call)]
    if isinstance(call.node.func, ast.Name | ast.Attribute):
        for origin in index.origins(call.node.func, call.function, call.line):
            if (
                isinstance(origin.value, ast.Call)
                and resolve(dotted(origin.value.func), origin.function) == "torch.compile"
            ):
                named += _compiled_there(origin.value, origin.function, index)
    return next(((each, known[each]) for each in named if each in known and known[each].is_direct), None)


def _compiled_there(node: ast.Call, function: Function, index: ProjectIndex) -> Iterator[Function]:
    for call in function.calls:
        if call.node is node:
            yield from _functions_compiled(call, index)


def traced_function(call: Call, index: ProjectIndex) -> Function | None:
    """Return the function, or the `forward` of the module, that a call surely hands on as its first argument."""
    found = tuple(_behind(call.node.args[0], call, index)) if call.node.args else ()
    return found[0] if len(found) == 1 else None
