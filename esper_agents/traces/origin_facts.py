"""Facts about a failing call: its callee, the size of its table, the origin of its tensor."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.facts import TraceFact, fact, files_with, tree_of
from esper_agents.traces.scopes import (
    FunctionNode,
    assigned_values,
    enclosing_class,
    enclosing_function,
    is_self,
    parameters_of,
    statement_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.facts import FactContext

_INFERENCE = re.compile(r"\binference_mode\b(?!\((?:mode=)?False\))")
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\(")


@fact
def transformers_used(context: FactContext) -> TraceFact | None:
    """Return an empty fact if a file of the project imports transformers or the trace runs through it."""
    if "transformers/" in context.text.replace("\\", "/"):
        return TraceFact({})
    for path in files_with(context.sources, "transformers", first=set()) if context.sources else ():
        for node in ast.walk(context.sources.tree(path) or ast.Module([], [])) if context.sources else ():
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            if any(name.partition(".")[0] == "transformers" for name in names):
                return TraceFact({})
    return None


@fact
def embeddings_of_class(context: FactContext) -> TraceFact | None:
    """Return the sizes of the embeddings that the class around a frame creates, if one line creates them all."""
    for frame in context.frames:
        owner = enclosing_class(tree_of(context, frame), frame.location.line)
        found = [
            (node, size)
            for node in ast.walk(owner or ast.Module([], []))
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"Embedding", "EmbeddingBag"}
            if (size := _first(node, "num_embeddings")) is not None
        ]
        if len(found) != 1 or owner is None:
            continue
        call, size = found[0]
        place = Location(frame.location.path, call.lineno)
        values = {"created": ast.unparse(call), "created_at": str(place), "rows": ast.unparse(size)}
        origin = _loop_source(owner, call, size)
        return TraceFact({**values, "rows_from": origin} if origin else values)
    return None


@fact
def signature_of_callee(context: FactContext) -> TraceFact | None:
    """Return the definition of the method that the message names, if the project has one of that name."""
    owner, _, method = context.groups.get("function", "").rpartition(".")
    if context.sources is None or not owner.isidentifier() or not method.isidentifier():
        return None
    found = [
        (path, each)
        for path in files_with(context.sources, f"class {owner}", first={each.location.path for each in context.frames})
        for node in ast.walk(context.sources.tree(path) or ast.Module([], []))
        if isinstance(node, ast.ClassDef) and node.name == owner
        for each in node.body
        if isinstance(each, FunctionNode) and each.name == method
    ]
    if len(found) != 1:
        return None
    path, function = found[0]
    place = Location(path, function.lineno)
    values = {"signature": f"{method}({ast.unparse(function.args)})", "defined_at": str(place)}
    return TraceFact(values | _chosen_callee(context, owner))


@fact
def inference_function(context: FactContext) -> TraceFact | None:
    """Return the only function under inference mode that the text of the trace or the files of its frames call."""
    if context.sources is None:
        return None
    paths = {frame.location.path for frame in context.frames}
    called = set(_CALLED.findall(context.text))
    for frame in context.frames:
        function = enclosing_function(tree_of(context, frame), frame.location.line) or tree_of(context, frame)
        called |= set(_CALLED.findall(ast.unparse(function))) if function is not None else set()
    found = [
        (path, function, disabled)
        for path in files_with(context.sources, "inference_mode", first=paths)
        for function, disabled in _inference_functions(context.sources.tree(path))
        if function.name in called
    ]
    # A name that another file of the project has too: the files of the trace decide.
    found = [each for each in found if each[0] in paths] or found
    if len(found) != 1:
        return None
    path, function, disabled = found[0]
    values = {
        "maker": function.name,
        "maker_at": str(Location(path, function.lineno)),
        "disabled": disabled[0],
        "disabled_at": str(Location(path, disabled[1])),
    }
    return TraceFact(values)


def _inference_functions(tree: ast.Module | None) -> Iterator[tuple[FunctionNode, tuple[str, int]]]:
    """Yield the functions with a decorator or a block of inference mode."""
    for node in ast.walk(tree or ast.Module([], [])):
        if not isinstance(node, FunctionNode):
            continue
        marks = [(f"@{ast.unparse(each)}", each.lineno) for each in node.decorator_list]
        marks += [
            (f"with {', '.join(ast.unparse(item.context_expr) for item in each.items)}", each.lineno)
            for each in ast.walk(node)
            if isinstance(each, ast.With)
        ]
        if mark := next((mark for mark in marks if _INFERENCE.search(mark[0])), None):
            yield node, mark


def _chosen_callee(context: FactContext, owner: str) -> dict[str, str]:
    """Return the attribute that the failing line calls, and the test by which its class treats the callee apart."""
    for frame in context.frames[:1]:
        tree = tree_of(context, frame)
        scope = enclosing_class(tree, frame.location.line)
        calls = [each for each in ast.walk(statement_at(tree, frame.location.line)) if isinstance(each, ast.Call)]
        called = [each.func for each in calls if isinstance(each.func, ast.Attribute) and is_self(each.func.value)]
        if scope is None or len(called) != 1:
            return {}
        name = ast.unparse(called[0])
        given = [value for each in scope.body for value in _given(each, name)]
        values = {"wrapped": name, "wrapped_at": str(Location(frame.location.path, given[0].lineno))} if given else {}
        line = frame.location.line
        decided = [each.test for each in ast.walk(scope) if isinstance(each, ast.If) and _contains(each, line)]
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance" and node.args:
                if any(node is each for test in decided for each in ast.walk(test)):
                    continue
                classes = ast.unparse(node.args[-1])
                if ast.unparse(node.args[0]) == name and re.search(rf"\b{re.escape(owner)}\b", classes):
                    place = Location(frame.location.path, node.lineno)
                    return values | {"apart": ast.unparse(node), "apart_at": str(place)}
        return values
    return {}


def _contains(node: ast.If, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


def _given(method: ast.stmt, name: str) -> Iterator[ast.expr]:
    """Yield the parameters that a method stores under a name."""
    for value in assigned_values(method, name):
        if isinstance(value, ast.Name) and value.id in parameters_of(method):
            yield value


def _first(call: ast.Call, name: str) -> ast.expr | None:
    named = [keyword.value for keyword in call.keywords if keyword.arg == name]
    return next(iter([*named, *call.args]), None)


def _loop_source(owner: ast.ClassDef, call: ast.Call, size: ast.expr) -> str:
    """Return what a loop or comprehension around a call takes the size from; empty if it is in none."""
    for node in ast.walk(owner):
        around: list[ast.For | ast.comprehension] = [node] if isinstance(node, ast.For) else []
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            around = list(node.generators)
        for loop in around if any(each is call for each in ast.walk(node)) else ():
            if any(isinstance(each, ast.Name) and each.id == ast.unparse(size) for each in ast.walk(loop.target)):
                return ast.unparse(_zipped(loop.target, loop.iter, ast.unparse(size)))
    return ""


def _zipped(target: ast.expr, values: ast.expr, name: str) -> ast.expr:
    """Return the argument of `zip` that a name of a loop takes its values from; all values without `zip`."""
    if isinstance(target, ast.Tuple) and isinstance(values, ast.Call) and ast.unparse(values.func) == "zip":
        for element, source in zip(target.elts, values.args, strict=False):
            if ast.unparse(element) == name:
                return source
    return values
