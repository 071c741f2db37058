"""Conditions about where a call is, and what else the function or the project calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.conditions import are_alternatives
from esper_agents.review.hot import hot_around
from esper_agents.review.names import dotted, walk
from esper_agents.review.usages.registry import ConditionResult, condition
from esper_agents.review.usages.sites import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.tables import Call
    from esper_agents.review.usages.registry import UsageContext


@condition
def in_step_loop(context: UsageContext) -> ConditionResult:
    """Whether the place runs in every training step."""
    call = context.site.call
    hot = hot_around(call.block, context.index) if call is not None else None
    return ConditionResult(hot is not None and not hot.is_epoch)


@condition
def in_loop(context: UsageContext) -> ConditionResult:
    """Whether the place is in a loop of its function."""
    call = context.site.call
    loop = call.block.loop if call is not None else None
    line = getattr(loop.node, "lineno", 0) if loop is not None else 0
    return ConditionResult(loop is not None, {"loop": f"{context.site.file.path}:{line}"})


def _named(context: UsageContext, names: tuple[str, ...]) -> Iterator[tuple[str, Call]]:
    """Yield the calls of the project by last or qualified name, with their files."""
    for path, file in sorted(context.index.files.items()):
        tails = [name for name in names if "." not in name]
        for call in (*file.calls_ending(*tails), *file.calls_to(*(name for name in names if "." in name))):
            if call is not context.site.call:
                yield path, call


@condition
def project_calls(context: UsageContext, *names: str) -> ConditionResult:
    """Whether the project calls something of these names anywhere."""
    found = next(_named(context, names), None)
    if found is None:
        return ConditionResult(False)
    path, call = found
    return ConditionResult(True, {"other": shown(call.node.func), "other_at": f"{path}:{call.line}"})


@condition
def function_calls(context: UsageContext, *names: str) -> ConditionResult:
    """Whether the function of the place calls something of these names."""
    return _in_function(context, names, lambda call, line: call.line != line or call is not context.site.call)


@condition
def called_before(context: UsageContext, *names: str) -> ConditionResult:
    """Whether something of these names is called above the place in its function, not in the other branch."""
    return _in_function(context, names, lambda call, line: call.line < line)


@condition
def called_after(context: UsageContext, *names: str) -> ConditionResult:
    """Whether something of these names is called below the place in its function, not in the other branch."""
    return _in_function(context, names, lambda call, line: call.line > line)


def _in_function(context: UsageContext, names: tuple[str, ...], is_meant: object) -> ConditionResult:
    site = context.site
    for call in site.function.calls:
        is_named = call.tail in names or call.name in names
        if call is site.call or not is_named or not callable(is_meant) or not is_meant(call, site.line):
            continue
        if site.call is not None and are_alternatives(call.block, site.call.block):
            continue
        return ConditionResult(True, {"other": shown(call.node.func), "other_at": f"{site.file.path}:{call.line}"})
    return ConditionResult(False)


@condition
def block_calls(context: UsageContext, *names: str) -> ConditionResult:
    """Whether the block that the place opens, or the function that it decorates, calls something of these names."""
    body = _opened(context)
    if body is None:
        return ConditionResult(None)
    for node in body:
        for each in walk(node):
            if isinstance(each, ast.Call) and dotted(each.func).rpartition(".")[2] in names:
                return ConditionResult(
                    True, {"other": shown(each), "other_at": f"{context.site.file.path}:{each.lineno}"}
                )
    return ConditionResult(False)


def _opened(context: UsageContext) -> list[ast.stmt] | None:
    """Return the statements of the `with` whose context the place is, or of the function that it decorates."""
    for node in walk(context.site.file.tree):
        if isinstance(node, ast.With | ast.AsyncWith):
            if any(item.context_expr is context.site.node for item in node.items):
                return node.body
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and context.site.node in node.decorator_list:
            return node.body
    return None


@condition
def opens_block(context: UsageContext) -> ConditionResult:
    """Whether the place is the context of a `with`, or a decorator."""
    body = _opened(context)
    return ConditionResult(body is not None, {"first": shown(body[0]) if body else ""})


@condition
def project_assigns(context: UsageContext, path: str, *values: str) -> ConditionResult:
    """Whether the project assigns one of these values to a path, such as `torch.backends.cudnn.deterministic`."""
    for name, file in sorted(context.index.files.items()):
        for function in file.functions:
            for target, assignments in function.assignments.items():
                for each in assignments:
                    if target.endswith(path) and ast.unparse(each.value) in values:
                        return ConditionResult(
                            True, {"other": shown(each.statement), "other_at": f"{name}:{each.line}"}
                        )
    return ConditionResult(False)


@condition
def project_reads(context: UsageContext, attribute: str) -> ConditionResult:
    """Whether the project reads an attribute of this name anywhere."""
    for name, file in sorted(context.index.files.items()):
        if f".{attribute}" not in file.text:
            continue
        for node in walk(file.tree):
            if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load):
                return ConditionResult(True, {"other": shown(node), "other_at": f"{name}:{node.lineno}"})
    return ConditionResult(False)


@condition
def block_makes(context: UsageContext) -> ConditionResult:
    """Whether the block or the decorated function computes something that it binds or returns."""
    body = _opened(context)
    if body is None:
        return ConditionResult(None)
    path = context.site.file.path
    for node in body:
        for each in walk(node):
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name | ast.Attribute | ast.Subscript):
                values = [part for part in walk(each.value) if isinstance(part, ast.Call | ast.BinOp)]
                if values:
                    return ConditionResult(
                        True,
                        {
                            "made": shown(each.targets[0]),
                            "made_by": shown(each.value),
                            "made_at": f"{path}:{each.lineno}",
                        },
                    )
            if isinstance(each, ast.Return) and isinstance(each.value, ast.Call | ast.BinOp):
                text = shown(each.value)
                return ConditionResult(
                    True, {"made": "the returned value", "made_by": text, "made_at": f"{path}:{each.lineno}"}
                )
    return ConditionResult(None)
