"""Names that a change renames: bound in both versions, used alike, and gone or new as a whole."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_NAMES = frozenset(("id", "attr", "arg", "name"))
_BLOCKS = frozenset(("body", "orelse", "finalbody", "handlers", "cases"))
_MOST_PAIRS = 4_000_000
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SELF = frozenset(("self", "cls"))


def renames(old: ast.AST, new: ast.AST) -> dict[str, str]:
    """Return the new names of what is only called otherwise, by the old ones.

    A name counts as renamed if code of this source binds it before and after (a variable, a parameter, a definition, or
    an attribute of `self`), if it does not occur afterwards, if the new one did not occur before, and if every
    statement that is otherwise the same has the one for the other.

    Args:
        old: Tree before the change: a module, or one function.
        new: Tree after it.
    """
    gone = set(_bound(old)) - set(_all(new))
    come = set(_bound(new)) - set(_all(old))
    if not gone or not come:
        return {}
    before, after = (
        [_blanked(statement, names) for statement in _statements(tree)] for tree, names in ((old, gone), (new, come))
    )
    if len(before) * len(after) > _MOST_PAIRS:
        return {}
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    matcher = SequenceMatcher(None, [text for text, _ in before], [text for text, _ in after], autojunk=False)
    for at, there, size in matcher.get_matching_blocks():
        for (_, was), (_, now) in zip(before[at : at + size], after[there : there + size], strict=True):
            for one, other in zip(was, now, strict=True):
                votes[one][other] += 1
    taken = Counter(name for vote in votes.values() for name in vote)
    return {one: next(iter(each)) for one, each in votes.items() if len(each) == 1 and taken[next(iter(each))] == 1}


def rename(tree: ast.AST, names: Mapping[str, str]) -> None:
    """Give a tree other names, in place."""
    if not names:
        return
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if field in _NAMES and isinstance(value, str) and value in names:
                setattr(node, field, names[value])


@dataclass(frozen=True, slots=True)
class RenamedText:
    """Source before a change with the names that the change gives.

    Attributes:
        text: The source; every line is where it was.
        spans: First and last lines with the old names by the new ones.
    """

    text: str
    spans: tuple[tuple[int, int, Mapping[str, str]], ...] = ()

    def original(self, part: str, line: int) -> str:
        """Return a part of a line with the old names."""
        for first, last, names in reversed(self.spans):
            if first <= line <= last:
                part = _replaced(part, names)
        return part


def with_new_names(before: str, after: str) -> RenamedText:
    """Return a source with the names that a change gives to what it only renames.

    Args:
        before: The source before the change.
        after: The source after it.
    """
    try:
        old, new = ast.parse(before), ast.parse(after)
        spans = [(1, before.count("\n") + 1, renames(old, new))]
        rename(old, spans[0][2])
        now = dict(_functions(new, ""))
        for name, node in _functions(old, ""):
            if name in now and ast.dump(node) != ast.dump(now[name]):
                spans.append((node.lineno, node.end_lineno or node.lineno, renames(node, now[name])))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return RenamedText(before)
    lines = before.split("\n")
    for first, last, names in spans:
        if names:
            lines[first - 1 : last] = [_replaced(line, names) for line in lines[first - 1 : last]]
    inverse = ((first, last, {new: old for old, new in names.items()}) for first, last, names in spans if names)
    return RenamedText("\n".join(lines), tuple(inverse))


def _replaced(text: str, names: Mapping[str, str]) -> str:
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
    return pattern.sub(lambda found: names[found[0]], text)


def _functions(node: ast.AST, name: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions within a node with their qualified names, outer ones first."""
    for child_node in ast.iter_child_nodes(node):
        inner = f"{name}.{child_node.name}" if isinstance(child_node, _DEFINITIONS) else name
        if isinstance(child_node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inner, child_node
        yield from _functions(child_node, inner)


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=ast.Store()) if owner in _SELF:
                yield name
            case ast.ExceptHandler(name=str(name)):
                yield name
            case _:
                continue


def _all(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if field in {*_NAMES, "asname"} and isinstance(value, str):
                yield value


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case))


def _blanked(statement: ast.AST, names: Collection[str]) -> tuple[str, list[str]]:
    """Return a statement without its block as text in which some names are blank, and these names in order."""
    parts: list[str] = []
    found: list[str] = []
    pending: list[object] = [statement]
    while pending:
        node = pending.pop()
        if not isinstance(node, ast.AST):
            parts.append(repr(node))
            continue
        parts.append(type(node).__name__)
        for field, value in reversed(list(ast.iter_fields(node))):
            if node is statement and field in _BLOCKS:
                continue
            if field in _NAMES and isinstance(value, str):
                is_blank = value in names
                found += [value] if is_blank else []
                parts.append("_" if is_blank else value)
            elif isinstance(value, list):
                parts.append(f"{field}{len(value)}")
                pending += reversed(value)
            elif not isinstance(value, ast.expr_context):
                pending.append(value)
    return " ".join(parts), found
