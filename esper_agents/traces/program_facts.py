"""Facts about how a program is put together: modules, loaders, losses, conversions."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.facts import TraceFact, enclosing, fact, files_with, method_calls
from esper_agents.traces.scopes import assigned_values, enclosing_class, is_self, statement_at

if TYPE_CHECKING:
    from esper_agents.traces.facts import FactContext


@fact
def modules_in_plain_list(context: FactContext) -> TraceFact | None:
    """Return an attribute that holds modules in a list or dictionary, so that their parameters are not registered."""
    if context.sources is None:
        return None
    paths = list(dict.fromkeys(frame.location.path for frame in context.frames))
    for path in [*paths, *files_with(context.sources, "nn.", first=set(paths))]:
        for node in ast.walk(context.sources.tree(path) or ast.Module([], [])):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Attribute)
                and is_self(node.targets[0].value)
                and isinstance(node.value, ast.List | ast.Dict | ast.ListComp)
                and re.search(
                    r"\bnn\.[A-Z]\w+\(|\b[A-Z]\w*(?:Layer|Block|Head|Net|Linear|Module)\(", ast.unparse(node.value)
                )
            ):
                if "parameter list" not in context.trace.message and not _is_in_frame(context, path, node.lineno):
                    continue
                place = Location(path, node.lineno)
                container = "nn.ModuleDict" if isinstance(node.value, ast.Dict) else "nn.ModuleList"
                name = f"self.{node.targets[0].attr}"
                return TraceFact({"name": name, "container": container, "list_at": str(place)}, place)
    return None


def _is_in_frame(context: FactContext, path: str, line: int) -> bool:
    """Return whether a line is in the class of a frame of the trace."""
    owners = (
        enclosing_class(context.sources.tree(path), frame.location.line)
        for frame in context.frames
        if context.sources is not None and frame.location.path == path
    )
    return any(owner is not None and owner.lineno <= line <= (owner.end_lineno or 0) for owner in owners)


@fact
def lambda_in_loader(context: FactContext) -> TraceFact | None:
    """Return a lambda or a local function in the files of the trace, which a worker process cannot unpickle."""
    if context.sources is None:
        return None
    name = re.escape(context.groups.get("local", ""))
    for frame in context.frames:
        tree = context.sources.tree(frame.location.path)
        for node in ast.walk(tree or ast.Module([], [])):
            if isinstance(node, ast.Lambda):
                place = Location(frame.location.path, node.lineno)
                return TraceFact({"local_function": ast.unparse(node), "lambda_at": str(place)}, place)
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and name and node.name == name and node.col_offset:
                place = Location(frame.location.path, node.lineno)
                return TraceFact({"local_function": node.name, "lambda_at": str(place)}, place)
    return None


@fact
def no_main_guard(context: FactContext) -> TraceFact | None:
    """Hold if a script of the trace starts processes without a `__main__` guard."""
    for frame in reversed(context.frames):
        text = (context.sources.text(frame.location.path) if context.sources else "") or ""
        if frame.frame.function == "<module>" and "__main__" not in text:
            return TraceFact({"script": frame.location.path}, frame.location)
    return None


@fact
def no_super_init(context: FactContext) -> TraceFact | None:
    """Return the `__init__` of a module that assigns before it calls `super().__init__()`."""
    for frame in context.frames:
        function = enclosing(context.sources, frame)
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            place = Location(frame.location.path, function.lineno)
            calls = [call for call in method_calls(function, "__init__") if "super" in ast.unparse(call)]
            late = f" at line {calls[0].lineno}, after this assignment" if calls else ""
            return TraceFact({"init_at": str(place), "late": late})
    return None


@fact
def base_not_initialized(context: FactContext) -> TraceFact | None:
    """Return the `__init__` of the class of the message, if a base class reads an attribute that only it could set."""
    sources, attribute = context.sources, context.groups.get("attribute", "")
    if sources is None or not attribute or not _is_read_outside(context, attribute):
        return None
    for path in files_with(sources, f"class {context.groups.get('model')}", first=_paths(context)):
        for node in ast.walk(sources.tree(path) or ast.Module([], [])):
            if isinstance(node, ast.ClassDef) and node.name == context.groups.get("model") and node.bases:
                own = next((each for each in node.body if getattr(each, "name", "") == "__init__"), None)
                sets = any(each.attr == attribute for each in ast.walk(node) if isinstance(each, ast.Attribute))
                if own is not None and not sets and not list(method_calls(own, "__init__")):
                    place = Location(path, own.lineno)
                    return TraceFact({"init_at": str(place), "base": ast.unparse(node.bases[0])}, place)
    return None


@fact
def read_in_project(context: FactContext) -> TraceFact | None:
    """Hold if a line of the project reads the attribute of the message, and no installed package does."""
    return None if _is_read_outside(context, context.groups.get("attribute", "")) else TraceFact({})


def _is_read_outside(context: FactContext, attribute: str) -> bool:
    """Return whether the trace ends in a frame that is not of the project and reads an attribute."""
    last = context.trace.frames[-1] if context.trace.frames else None
    inner = context.frames[0].frame if context.frames else None
    return last is not None and last != inner and attribute in last.text


def _paths(context: FactContext) -> set[str]:
    return {frame.location.path for frame in context.frames}


@fact
def compared_in_condition(context: FactContext) -> TraceFact | None:
    """Return the condition at the frame."""
    for frame in context.frames:
        tree = context.sources.tree(frame.location.path) if context.sources else None
        for node in ast.walk(tree or ast.Module([], [])):
            if (
                isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert)
                and node.test.lineno == frame.location.line
            ):
                return TraceFact({"condition": ast.unparse(node.test), "reduced": _reducible(node.test)})
    return None


def _reducible(test: ast.expr) -> str:
    """Return a condition as one tensor expression: `and`, `or` and `not` work on single truth values only."""
    if isinstance(test, ast.BoolOp):
        sign = " | " if isinstance(test.op, ast.Or) else " & "
        return f"({sign.join(_reducible(value) for value in test.values)})"
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return f"(~{_reducible(test.operand)})"
    return f"({ast.unparse(test)})"


@fact
def loss_arguments(context: FactContext) -> TraceFact | None:
    """Return the input and the target of the loss that the line of the frame computes."""
    for frame in context.frames:
        tree = context.sources.tree(frame.location.path) if context.sources else None
        for node in ast.walk(statement_at(tree, frame.location.line)):
            if isinstance(node, ast.Call) and len(node.args) > 1 and _is_loss(tree, node):
                first, second = (ast.unparse(argument) for argument in node.args[:2])
                return TraceFact({"input": first, "target": second, "loss": ast.unparse(node.func)})
    return None


def _is_loss(tree: ast.Module | None, call: ast.Call) -> bool:
    """Return whether a call computes a loss, by its name or by the class that its object is created from."""
    name = ast.unparse(call.func)
    if re.search(r"loss|criterion|cross_entropy|objective", name, re.IGNORECASE):
        return True
    values = assigned_values(tree or ast.Module([], []), name)
    return any(re.search(r"\w*Loss\(", ast.unparse(value)) for value in values)


@fact
def converted_to_numpy(context: FactContext) -> TraceFact | None:
    """Return the tensor that the line of the frame converts to NumPy."""
    for frame in context.frames:
        tree = context.sources.tree(frame.location.path) if context.sources else None
        for node in ast.walk(statement_at(tree, frame.location.line)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in {"numpy", "__array__"}:
                    return TraceFact(
                        {"tensor": re.sub(r"(?:\.cpu\(\)|\.detach\(\))+$", "", ast.unparse(node.func.value))}
                    )
                if ast.unparse(node.func.value) in {"np", "numpy", "plt"} and node.args:
                    return TraceFact({"tensor": ast.unparse(node.args[0])})
    return None
