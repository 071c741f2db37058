"""Conditions about where a result goes within its function, and where a receiver comes from."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.models import gradients_off_around
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.training import backward_calls_in, losses_of
from esper_agents.review.usages.registry import ConditionResult, condition
from esper_agents.review.usages.sites import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.tables import Call
    from esper_agents.review.usages.registry import UsageContext
    from esper_agents.review.usages.sites import UsageSite

# Results of these hold no graph of their arguments.
_ENDS = frozenset(
    {"item", "detach", "detach_", "numpy", "tolist", "len", "float", "int", "bool", "print", "argmax", "isnan"}
)
_VIEWED = frozenset(
    {"append", "add_scalar", "log", "print", "info", "write", "item", "numpy", "tolist", "add", "update"}
)


@condition
def gradients_off(context: UsageContext) -> ConditionResult:
    """Whether gradients are off at the place in its function: by a `with`, or by a decorator."""
    call = context.site.call
    if call is None:
        return ConditionResult(None)
    return ConditionResult(gradients_off_around(call.block, context.index))


@condition
def result_discarded(context: UsageContext) -> ConditionResult:
    """Whether nothing uses the result of the call."""
    call = context.site.call
    return ConditionResult(call is not None and isinstance(call.parent, ast.Expr))


def names_made_from(site: UsageSite, *, through_ends: bool = False) -> dict[str, int]:
    """Return the paths in the function that are computed from the result of a call, with the lines that bind them.

    Follows assignments in the order of lines, with those after the place only; what ends a graph is not followed.
    """
    found: dict[str, int] = {}
    ordered = sorted(
        (each for assignments in site.function.assignments.values() for each in assignments), key=lambda each: each.line
    )
    for each in ordered:
        if each.line < site.first_line:
            continue
        if _reads(each.value, set(found), site.node, through_ends=through_ends):
            found.setdefault(each.target.removesuffix("[]"), each.line)
    return found


def _reads(value: ast.AST, names: set[str], node: ast.AST, *, through_ends: bool) -> bool:
    """Return whether a value is computed from a node, or from one of the names, with its graph."""
    edge = [value]
    while edge:
        each = edge.pop()
        if each is node:
            return True
        if isinstance(each, ast.Name | ast.Attribute) and dotted(each) in names:
            return True
        if isinstance(each, ast.Call) and not through_ends and _ends_graph(dotted(each.func)):
            continue
        edge += ast.iter_child_nodes(each)
    return False


def _ends_graph(path: str) -> bool:
    """Return whether the result of a call holds no graph of its arguments; `torch.tensor` copies numbers."""
    return tail_of(path) in _ENDS or path == "torch.tensor"


@condition
def result_sent_backward(context: UsageContext) -> ConditionResult:
    """Whether a loss that is computed from the result is sent backward later in the function."""
    site = context.site
    names = names_made_from(site)
    for backward in backward_calls_in(site.function):
        losses = losses_of(backward)
        hit = sorted(set(names) & losses)
        if hit:
            return ConditionResult(True, {"loss": hit[0], "backward": f"{site.file.path}:{backward.line}"})
        if any(_reads(part, set(names), site.node, through_ends=False) for part in [backward.node.func]):
            return ConditionResult(
                True, {"loss": shown(backward.node), "backward": f"{site.file.path}:{backward.line}"}
            )
    if _leaves(site, names):
        return ConditionResult(None)
    return ConditionResult(False)


def _leaves(site: UsageSite, names: dict[str, int]) -> bool:
    """Return whether a value computed from the result is returned, stored, or given to a call that may keep it."""
    known = set(names)
    if any("." in name for name in known):
        return True
    for statement, _ in site.function.returns:
        if statement.value is not None and _reads(statement.value, known, site.node, through_ends=False):
            return True
    is_yielded = any(
        isinstance(each, ast.Yield | ast.YieldFrom)
        and each.value is not None
        and _reads(each.value, known, site.node, through_ends=False)
        for each in walk(site.function.node)
    )
    if is_yielded:
        return True
    return any(
        call is not site.call and call.tail not in _VIEWED and _is_kept(call, known, site)
        for call in site.function.calls
    )


def _is_kept(call: Call, names: set[str], site: UsageSite) -> bool:
    """Return whether a call whose result is not used receives a value: it may keep it."""
    given = (*call.node.args, *(keyword.value for keyword in call.node.keywords))
    return isinstance(call.parent, ast.Expr) and any(
        _reads(each, names, site.node, through_ends=False) for each in given
    )


@condition
def result_given_to(context: UsageContext, *tails: str) -> ConditionResult:
    """Whether the result, or what is computed from it in the function, is an argument of a call of such a name."""
    site = context.site
    names = set(names_made_from(site, through_ends=True))
    for call in site.function.calls:
        given = (*call.node.args, *(keyword.value for keyword in call.node.keywords))
        is_after = call.line >= site.first_line and call is not site.call
        if call.tail in tails and is_after and any(_reads(each, names, site.node, through_ends=True) for each in given):
            return ConditionResult(
                True, {"user": call.path.replace("`", "'"), "used_at": f"{site.file.path}:{call.line}"}
            )
    return ConditionResult(False if not _leaves(site, dict.fromkeys(names, 0)) else None)


@condition
def method_called_on_result(context: UsageContext, *tails: str) -> ConditionResult:
    """Whether such a method is called on the result at once, or on the name that it is bound to."""
    site = context.site
    names = {name for name, line in names_made_from(site).items() if line == site.first_line}
    for call in site.function.calls:
        receiver = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
        is_direct = receiver is site.node
        if call.tail in tails and (is_direct or (dotted(receiver) in names if receiver is not None else False)):
            return ConditionResult(True, {"user": call.tail, "used_at": f"{site.file.path}:{call.line}"})
    return ConditionResult(False)


@condition
def result_changed_in_place(context: UsageContext) -> ConditionResult:
    """Whether the result or the tensor that it is made from is changed in place later in the function."""
    site = context.site
    bound = {name for name, line in names_made_from(site, through_ends=True).items() if line == site.first_line}
    if site.call is not None:
        bound.add(site.call.receiver)
        if site.call.receiver.startswith("self.") and (changed := _changed_by_class(site, site.call.receiver)):
            return changed
    for line, name, text in _in_place(site):
        if name in bound and line >= site.first_line:
            return ConditionResult(True, {"changed": text, "changed_at": f"{site.file.path}:{line}"})
    if not bound or _leaves(site, dict.fromkeys(bound, 0)):
        return ConditionResult(None)
    return ConditionResult(False)


def _in_place(site: UsageSite) -> Iterator[tuple[int, str, str]]:
    """Yield line, path and text of the changes in place in the function."""
    for call in site.function.calls:
        if call.tail.endswith("_") and not call.tail.startswith("_") and call.receiver:
            yield call.line, call.receiver, shown(call.node)
    for path, assignments in site.function.assignments.items():
        for each in assignments:
            if path.endswith("[]") or each.is_augmented:
                yield each.line, path.removesuffix("[]"), shown(each.statement)


def makers_of(context: UsageContext, value: ast.expr) -> list[ast.expr]:
    """Return the expressions that a value comes from, through names and callers."""
    return [each.value for each in context.index.origins(value, context.site.function, context.site.line)]


def _receiver(context: UsageContext) -> ast.expr | None:
    call = context.site.call
    if call is not None:
        return call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    return context.site.node.value if isinstance(context.site.node, ast.Attribute) else None


@condition
def receiver_made_by(context: UsageContext, *tails: str) -> ConditionResult:
    """Whether the receiver surely comes from calls of such names."""
    receiver = _receiver(context)
    made = makers_of(context, receiver) if receiver is not None else []
    calls = [each for each in made if isinstance(each, ast.Call)]
    if not made or len(calls) < len(made):
        return ConditionResult(None)
    hits = [each for each in calls if tail_of(dotted(each.func)) in tails]
    values = {"maker": shown(hits[0]), "made_at": f"{context.site.file.path}:{hits[0].lineno}"} if hits else {}
    return ConditionResult(None if hits and len(hits) < len(calls) else bool(hits), values)


@condition
def receiver_is_parameter(context: UsageContext) -> ConditionResult:
    """Whether the receiver is a parameter of a module, or a leaf that requires a gradient."""
    receiver = _receiver(context)
    if receiver is None:
        return ConditionResult(None)
    root = root_of(dotted(receiver))
    for block in context.site.function.blocks:
        loop = block.node
        is_around = isinstance(loop, ast.For) and loop.lineno <= context.site.line <= (loop.end_lineno or 0)
        if (
            is_around
            and isinstance(loop, ast.For)
            and root in block.targets
            and "parameters()" in ast.unparse(loop.iter)
        ):
            return ConditionResult(True, {"maker": shown(loop.iter)})
    made = makers_of(context, receiver)
    is_made = [isinstance(each, ast.Call) and "requires_grad=True" in ast.unparse(each) for each in made]
    is_named = dotted(receiver).endswith((".weight", ".bias"))
    return (
        ConditionResult(True, {"maker": shown(receiver)})
        if is_named or (made and all(is_made))
        else ConditionResult(None)
    )


def _changed_by_class(site: UsageSite, path: str) -> ConditionResult | None:
    """Return where another method of the class changes an attribute in place; None if none does."""
    owner = site.function.owner
    for method in owner.methods.values() if owner is not None else ():
        for line, name, text in _in_place(replace(site, function=method)):
            if name == path and method is not site.function:
                return ConditionResult(True, {"changed": text, "changed_at": f"{site.file.path}:{line}"})
    return None


@condition
def result_leaves_function(context: UsageContext) -> ConditionResult:
    """Whether what is computed from the result is returned by the function, or stored in an attribute."""
    site = context.site
    names = names_made_from(site)
    values = {"origin": _origin_of(context)}
    for name, line in names.items():
        if name.startswith("self."):
            return ConditionResult(
                True, {**values, "sink": name, "how": "is stored", "sink_at": f"{site.file.path}:{line}"}
            )
    for statement, _ in site.function.returns:
        if statement.value is not None and _reads(statement.value, set(names), site.node, through_ends=False):
            place = f"{site.file.path}:{statement.lineno}"
            return ConditionResult(
                True, {**values, "sink": shown(statement.value), "how": "is returned", "sink_at": place}
            )
    return ConditionResult(None)


def _origin_of(context: UsageContext) -> str:
    """Return what the receiver is: an argument of the function, or the expression that makes it."""
    receiver = _receiver(context)
    if receiver is None:
        return "its source"
    name = dotted(receiver)
    if name in context.site.function.parameters:
        return f"the argument `{name}` of `{context.site.function.qualname}`"
    made = [each for each in makers_of(context, receiver) if each is not receiver]
    if len(made) == 1:
        return f"`{shown(receiver)}`, which is `{shown(made[0])}`,"
    return f"`{shown(receiver)}`"


@condition
def option_set_by(context: UsageContext) -> ConditionResult:
    """Whether the option is a variable, with the assignment or the parameter that sets it."""
    site = context.site
    if site.option is None or not isinstance(site.option, ast.Name | ast.Attribute):
        return ConditionResult(None)
    name = dotted(site.option)
    if name in site.function.parameters:
        return ConditionResult(True, {"maker": f"the argument `{name}` of `{site.function.qualname}`"})
    made = site.function.last_assignment(name, site.line)
    if made is None:
        return ConditionResult(None)
    return ConditionResult(True, {"maker": f"`{shown(made.statement)}` at {site.file.path}:{made.line}"})
