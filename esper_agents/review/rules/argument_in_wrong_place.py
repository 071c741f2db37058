"""ESP292: a value is passed by position to another parameter than the one that has its name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import FOLLOWED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

# Shorter names are used for anything.
_SHORTEST = 4


class ArgumentInWrongPlace(Rule):
    """A value passed by position to one parameter, while another parameter of the function has its very name.

    ## Why it costs
    The value arrives under another name and the parameter that it was meant for keeps its default. With numbers or
    tensors of one kind nothing raises: the call computes something else.

    ## When it is right
    The value is meant for the other parameter in spite of its name. Reported only if the function has an optional
    parameter with exactly the name of the value, and the call leaves it out. First arguments, and two values in each
    other's place, as in a symmetric loss, are not reported.

    ## Sources
    Rice et al., "Detecting Argument Selection Defects", OOPSLA 2017: names of arguments and parameters agree in correct
    calls, and swapped ones are found by them.
    """

    code, name = "ESP292", "argument-in-wrong-place"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "def weighted(scores, margin=0.0, smoothing=0.0):\n"
        "    return scores.clamp(min=margin) * (1 - smoothing)\n"
        "\n"
        "\n"
        "def loss(scores, smoothing):\n"
        "    return weighted(scores, smoothing)\n"
    )
    good = bad.replace("weighted(scores, smoothing)", "weighted(scores, smoothing=smoothing)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the values that stand in the place of another parameter."""
        for call in file.calls:
            found = index.callees(call) if call.node.args and not call.has_splat() else ()
            if len(found) == 1 and found[0] is not call.function:
                yield from self._misplaced(call, found[0])

    def _misplaced(self, call: Call, function: Function) -> Iterator[RuleMatch]:
        given = dict(zip(_positional(call, function), call.node.args, strict=False))
        passed = set(given) | {each.arg for each in call.node.keywords if each.arg}
        optional = _optional(function)
        # The first parameter is often one that takes anything, such as `x`.
        for name, value in list(given.items())[1:]:
            own = _name_of(value)
            # Both have defaults: nothing raises, and the call may leave either of them out.
            if own == name or len(own) < _SHORTEST or own in passed or not {own, name} <= optional:
                continue
            yield self.hit(
                value,
                f"`{own}` is passed as `{name}` of `{function.qualname}` ({function.file.path}:"
                f"{getattr(function.node, 'lineno', 1)}), whose parameter `{own}` keeps its default",
                remedy=f"pass it by name: `{own}={ast.unparse(value)}`",
                basis=FOLLOWED,
            )


def _optional(function: Function) -> set[str]:
    """Return the parameters of a function that have a default."""
    node = function.node
    if isinstance(node, ast.Module):
        return set()
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    count = len(node.args.defaults)
    return {*(names[-count:] if count else ()), *(each.arg for each, value in keywords if value is not None)}


def _positional(call: Call, function: Function) -> list[str]:
    """Return the parameters that the positional arguments of a call go to."""
    node = function.node
    if isinstance(node, ast.Module):
        return []
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    is_bound = function.owner is not None and "staticmethod" not in function.decorators
    # `Class.method(object, ...)` passes the object itself.
    is_plain = isinstance(call.node.func, ast.Attribute) and call.receiver == (
        function.owner.name if function.owner else ""
    )
    return names[1:] if is_bound and not is_plain and names else names


def _name_of(value: ast.expr) -> str:
    """Return the name of a value: `x`, or the last one of `self.x` and `config.x`."""
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
