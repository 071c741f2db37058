"""Statements that a change moves into a new function of the same file, which is called in their place."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted
from esper_agents.review.renamed_names import rename

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from esper_agents.review.syntax_units import SyntaxScope, Unit

# One statement can be in two functions by chance, such as `x = x.float()`.
_LEAST_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class ExtractedStatements:
    """Statements that are now in a new function.

    Attributes:
        function: Qualified name of the function.
        line: Line of its definition.
        call: The statement that calls it.
        moved: Numbers of the old statements that it contains, in order.
        is_whole: Whether it contains nothing else.
    """

    function: str
    line: int
    call: Unit
    moved: tuple[int, ...]
    is_whole: bool


def extracted_statements(
    gone: Mapping[int, Unit], come: Sequence[Unit], scopes: Mapping[str, SyntaxScope], known: Collection[str]
) -> list[ExtractedStatements]:
    """Return the statements that moved into new functions, by function.

    Args:
        gone: Statements that a scope has lost, by number.
        come: Statements that it has gained.
        scopes: Scopes of the new source, by name.
        known: Names of the scopes of the old source.
    """
    found = []
    helpers = {name.rpartition(".")[2]: name for name in scopes if name not in known}
    for unit in come:
        for call in ast.walk(unit.node) if isinstance(unit.node, ast.Expr | ast.Assign | ast.Return) else ():
            called = dotted(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Call) and called in helpers:
                scope = scopes[helpers[called]]
                if extracted := _extracted(gone, unit, scope, _names(scope, call)):
                    found.append(extracted)
    return found


def _names(scope: SyntaxScope, call: ast.Call) -> dict[str, str]:
    """Return the variables of a call by the parameters that take them."""
    arguments = getattr(scope.node, "args", None)
    parameters = [each.arg for each in (*arguments.posonlyargs, *arguments.args)] if arguments is not None else []
    if parameters[:1] in (["self"], ["cls"]):
        del parameters[0]
    pairs = [*zip(parameters, call.args, strict=False), *((each.arg, each.value) for each in call.keywords)]
    return {
        name: value.id for name, value in pairs if name is not None and isinstance(value, ast.Name) and value.id != name
    }


def _extracted(
    gone: Mapping[int, Unit], call: Unit, scope: SyntaxScope, names: Mapping[str, str]
) -> ExtractedStatements | None:
    left = Counter(_key(unit, names) for unit in scope.units if not isinstance(unit.node, ast.FunctionDef))
    size = left.total()
    moved = []
    for number, unit in gone.items():
        if left[unit.key] > 0:
            left[unit.key] -= 1
            moved.append(number)
    is_returned = [unit for unit in scope.units if isinstance(unit.node, ast.Return)]
    if not moved or len(moved) < _LEAST_SHARE * (size - len(is_returned)):
        return None
    is_whole = len(moved) >= size - len(is_returned)
    return ExtractedStatements(scope.name, scope.line, call, tuple(moved), is_whole)


def _key(unit: Unit, names: Mapping[str, str]) -> str:
    if not names:
        return unit.key
    node = copy.deepcopy(unit.node)
    rename(node, names)
    return type(unit)(unit.kind, node, unit.parent, unit.line).key
