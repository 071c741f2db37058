"""Definitions that a change edits, in both versions, found by name or by a similar body."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted
from esper_agents.review.syntax_units import scopes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.review.syntax_units import SyntaxScope

# Minimum share of equal statements for two definitions to be one that was renamed.
_SIMILAR_BODY = 0.5
# Their code runs when the object is made or called.
_OF_OBJECT = frozenset(("__init__", "__call__", "forward", "setup", "reset_parameters", "extra_repr", "__post_init__"))


@dataclass(frozen=True, slots=True)
class ChangedDefinition:
    """Definition that exists before and after a change, and differs.

    Attributes:
        before: Qualified name before the change.
        after: Qualified name after it.
        holder: Class that contains it, after the change; empty for a function.
        holder_before: Class that contains it, before the change.
        line: First line of the new definition, decorators excluded.
        last_line: Last line of the new definition.
        body: First and last line of the body of the new definition.
        body_before: First and last line of the body of the old one.
        is_of_optimizer: Whether it belongs to an optimizer, whose `step` takes no inputs.
    """

    before: str
    after: str
    holder: str
    holder_before: str
    line: int
    last_line: int
    body: tuple[int, int]
    body_before: tuple[int, int]
    is_of_optimizer: bool = False

    @property
    def is_run_by_object(self) -> bool:
        """Whether making or calling an object of its class runs it."""
        return bool(self.holder) and (self.after == self.holder or self.after.rpartition(".")[2] in _OF_OBJECT)


def changed_definitions(before: str, after: str) -> tuple[ChangedDefinition, ...]:
    """Return the functions, methods and class bodies that both versions of a source have and that differ.

    A function within another one counts as that one. Form alone, such as comments and annotations, is no difference.

    Args:
        before: The old source.
        after: The new source.

    Raises:
        SyntaxError: A source is not Python.
    """
    old, new = scopes_of(ast.parse(before)), scopes_of(ast.parse(after))
    found: dict[str, ChangedDefinition] = {}
    for was, now in paired_scopes(old, new):
        if not now or old[was].keys == new[now].keys:
            continue
        outer, outer_before = _outermost(now, new), _outermost(was, old)
        node = new[outer].node if outer else None
        node_before = old[outer_before].node if outer_before in old else None
        if node is None or isinstance(node, ast.Module) or node_before is None or isinstance(node_before, ast.Module):
            continue
        holder, holder_before = (_holder(name, scopes) for name, scopes in ((outer, new), (outer_before, old)))
        is_of_optimizer = f"{holder}.step" in new and holder in new and _is_optimizer(new[holder].node)
        made = ChangedDefinition(
            before=outer_before,
            after=outer,
            holder=holder,
            holder_before=holder_before,
            line=node.lineno,
            last_line=node.end_lineno or node.lineno,
            body=_body(node),
            body_before=_body(node_before),
            is_of_optimizer=is_of_optimizer,
        )
        found.setdefault(outer, made)
    return tuple(found.values())


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> tuple[int, int]:
    last = node.end_lineno or node.lineno
    return (node.body[0].lineno if node.body else last), last


def _outermost(name: str, scopes: Mapping[str, SyntaxScope]) -> str:
    """Return the function, method or class that a scope belongs to; empty if its name is not unique."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        outer = ".".join(parts[:count])
        if "#" in outer or outer not in scopes:
            return ""
        if not isinstance(scopes[outer].node, ast.ClassDef):
            return outer
    return name


def _is_optimizer(node: ast.AST) -> bool:
    bases = node.bases if isinstance(node, ast.ClassDef) else ()
    return any(dotted(base).rpartition(".")[2].endswith("Optimizer") for base in bases)


def _holder(name: str, scopes: Mapping[str, SyntaxScope]) -> str:
    owner = name if isinstance(scopes[name].node, ast.ClassDef) else name.rpartition(".")[0]
    return owner if "." not in owner else ""


def paired_scopes(old: Mapping[str, SyntaxScope], new: Mapping[str, SyntaxScope]) -> Iterator[tuple[str, str]]:
    """Yield the scopes of two versions that are one: of equal name, or renamed with a similar body.

    Args:
        old: Scopes of the old source, by qualified name.
        new: Scopes of the new source.
    """
    left = [name for name in new if name not in old]
    for name, scope in old.items():
        if name in new:
            yield name, name
            continue
        alike = [(_share(scope, new[each]), each) for each in left if type(scope.node) is type(new[each].node)]
        best = max(alike, default=(0.0, ""))
        if best[0] >= _SIMILAR_BODY:
            left.remove(best[1])
            yield name, best[1]


def _share(one: SyntaxScope, other: SyntaxScope) -> float:
    both = Counter(one.keys[1:]) & Counter(other.keys[1:])
    return 2 * both.total() / max(1, len(one.keys) + len(other.keys) - 2)
