"""Executable lines that a change brings to a file, in blocks that a test can reach."""

from __future__ import annotations

import ast
import io
import tokenize
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.tools.executable_lines import executable_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# A part with more pairs of lines counts as replaced as a whole.
_MOST_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class ChangedBlock:
    """Edited lines that belong together: one edit in one function.

    Attributes:
        line: First line of the edit in the new file.
        statements: First lines of the statements whose execution executes the edit; empty if no test can do that.
    """

    line: int
    statements: frozenset[int]


@dataclass(frozen=True, slots=True)
class ChangedLines:
    """Executable part of a change to one file.

    Attributes:
        blocks: Edits, in order.
        statements: First lines of the statements that the change adds or edits.
        names: Functions and classes that the change touches.
    """

    blocks: tuple[ChangedBlock, ...] = ()
    statements: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()


def changed_lines(before: str, after: str) -> ChangedLines:
    """Return the executable lines that a change brings to a file. Comments, docstrings and blank lines never count.

    Deleted lines count as executed where the statement is that took their place. A statement outside functions runs at
    each import, which shows nothing: the statements in functions that use a name that it binds count instead.

    Args:
        before: The old text; empty for a new file.
        after: The new text.

    Raises:
        SyntaxError: The new text is not Python.
        ValueError: The new text contains a null byte.
    """
    new = _Text.parse(after)
    try:
        old = _Text.parse(before)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        old = _Text.parse("")
    statements = executable_lines(after).statements
    found = _Found(old, new, statements, sorted(statements))
    for old_from, old_to, new_from, new_to in _edits(old.shown, new.shown):
        found.add(old.numbers[old_from:old_to], new.numbers[new_from:new_to], new_from)
    return ChangedLines(tuple(found.blocks()), frozenset(found.direct), frozenset(found.names))


@dataclass(frozen=True)
class _Text:
    """A source: its tree, and its lines without comments and docstrings."""

    tree: ast.Module
    numbers: list[int]
    shown: list[str]

    @classmethod
    def parse(cls, text: str) -> _Text:
        tree = ast.parse(text)
        dropped = {
            number
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        lines = {
            number: line
            for number, line in enumerate(_without_comments(text), 1)
            if line.strip() and number not in dropped
        }
        return cls(tree, list(lines), list(lines.values()))

    @cached_property
    def _scopes(self) -> dict[str, _Scope]:
        found: dict[str, _Scope] = {}
        pending: list[tuple[str, ast.AST]] = [("", self.tree)]
        while pending:
            name, node = pending.pop()
            for each in _scopes_in(node):
                inner = f"{name}.{each.name}".lstrip(".")
                found.setdefault(inner, each)
                pending.append((inner, each))
        return found

    @cached_property
    def _owners(self) -> dict[int, str]:
        # Outer scopes first: what is inside replaces what is around it.
        ordered = sorted(self._scopes.items(), key=lambda each: each[0].count("."))
        return {
            line: name for name, each in ordered for line in range(_first(each), (each.end_lineno or each.lineno) + 1)
        }

    @cached_property
    def bound(self) -> dict[int, set[str]]:
        """Names that statements outside functions bind, by line."""
        found: dict[int, set[str]] = {}
        for first, last, name in _bindings(self.tree.body):
            for line in range(first, last + 1):
                found.setdefault(line, set()).add(name)
        return found

    @cached_property
    def uses(self) -> dict[str, set[int]]:
        """Lines on which a name is used, as a name or an attribute."""
        found: dict[str, set[int]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name):
                found.setdefault(node.id, set()).add(node.lineno)
            elif isinstance(node, ast.Attribute):
                found.setdefault(node.attr, set()).add(node.lineno)
        return found

    def scope_of(self, line: int) -> str:
        """Return the dotted name of the innermost function or class around a line, decorators included."""
        return self._owners.get(line, "")

    def scope_named(self, name: str) -> _Scope | None:
        return self._scopes.get(name)


def _without_comments(text: str) -> list[str]:
    lines = text.split("\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass
    return [line.rstrip() for line in lines]


def _scopes_in(node: ast.AST) -> Iterator[_Scope]:
    """Yield the outermost functions and classes within a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _SCOPES):
            yield child
        else:
            yield from _scopes_in(child)


def _first(scope: _Scope) -> int:
    return min((each.lineno for each in scope.decorator_list), default=scope.lineno)


def _edits(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the runs of lines that differ: positions in both texts, ends exclusive. Indentation counts.

    Lines that occur once in both texts divide them first: difflib alone takes quadratic time.
    """
    at, there = 0, 0
    for one, other in (*_anchors(old, new), (len(old), len(new))):
        yield from _between(old, new, (at, one), (there, other))
        at, there = one + 1, other + 1


def _between(
    old: list[str], new: list[str], here: tuple[int, int], there: tuple[int, int]
) -> Iterator[tuple[int, int, int, int]]:
    one, other = old[slice(*here)], new[slice(*there)]
    if one == other:
        return
    if len(one) * len(other) > _MOST_CELLS:
        yield *here, *there
        return
    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag != "equal":
            yield here[0] + old_from, here[0] + old_to, there[0] + new_from, there[0] + new_to


def _anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Return the positions of equal lines that occur once in both texts: the longest run in the order of both."""
    counts, others = Counter(old), Counter(new)
    places = {line: place for place, line in enumerate(new) if others[line] == 1}
    pairs = [(place, places[line]) for place, line in enumerate(old) if counts[line] == 1 and line in places]
    # Patience: for each length, the end of the run that ends first, and the pair before each pair.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    found: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


@dataclass(slots=True)
class _Found:
    """Blocks of a change while its edits are added."""

    old: _Text
    new: _Text
    statements: Mapping[int, int]
    ordered: list[int]
    direct: set[int] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    _blocks: list[ChangedBlock] = field(default_factory=list)

    def blocks(self) -> list[ChangedBlock]:
        return sorted(self._blocks, key=lambda each: each.line)

    def add(self, gone: list[int], come: list[int], at: int) -> None:
        """Add one edit: the old lines that it removed, the new lines that it brought, and its place in the new text."""
        by_scope: dict[str, list[int]] = {}
        for line in come:
            by_scope.setdefault(self.new.scope_of(line), []).append(line)
        for name, lines in by_scope.items():
            self._brought(name, lines)
        if not come:
            self._removed(gone, at)

    def _brought(self, name: str, lines: list[int]) -> None:
        found = self.new.scope_named(name) if name else None
        direct = {self.statements[line] for line in lines if line in self.statements}
        self.direct |= direct
        if found is not None:
            self.names.add(found.name)
        statements = set(direct)
        outside = [line for line in lines if line not in self.statements]
        if isinstance(found, _FUNCTIONS):
            if outside:
                statements |= self._body(found)
            if not statements and not self._body(found):
                return
        elif outside:
            bound = {each for line in outside for each in self.new.bound.get(line, ())}
            methods = [each for each in _scopes_in(found) if isinstance(each, _FUNCTIONS)] if found else []
            if found is not None and any(line < found.body[0].lineno for line in outside):
                statements |= {line for method in methods for line in self._body(method)}
                bound.add(found.name)
            self.names |= bound
            statements |= self._using(bound)
            if found is not None and not bound:
                return
            if not statements and _only_imports(self.new.tree, outside):
                self._imported(lines[0])
                return
        self._blocks.append(ChangedBlock(lines[0], frozenset(statements)))

    def _removed(self, gone: list[int], at: int) -> None:
        """Add a deletion: within a function, the statement after it stands for it, else the one before it."""
        was = self.old.scope_of(gone[0])
        here = self.new.scope_named(was)
        near = [self.new.numbers[each] for each in (at, at - 1) if 0 <= each < len(self.new.numbers)]
        line = near[0] if near else 1
        if isinstance(here, _FUNCTIONS):
            self.names.add(here.name)
            body = self._body(here)
            ordered = sorted(body)
            after = ordered[bisect_left(ordered, line) :] if near and _first(here) <= line else []
            inside = [self.statements[each] for each in near if self.statements.get(each) in body]
            statements = {*(inside or after or ordered[-1:])}
            self._blocks.append(ChangedBlock(line, frozenset(sorted(statements)[:1])))
            return
        outer = was if here is None else ""
        bound = {one for number in gone for one in self.old.bound.get(number, ())}
        bound = {outer.rpartition(".")[2]} if outer else bound
        self.names |= bound
        using = self._using(bound)
        if not using and not outer and _only_imports(self.old.tree, gone):
            self._imported(line)
            return
        # Nothing of this file uses it, and nothing else should.
        if not using and bound and all(each.startswith("_") and not each.startswith("__") for each in bound):
            return
        self._blocks.append(ChangedBlock(line, frozenset(using)))

    def _imported(self, line: int) -> None:
        """Add an edit of imports that no function uses: a test that executes any function of the file imported them."""
        if self.statements:
            self._blocks.append(ChangedBlock(line, frozenset(self.statements.values())))

    def _body(self, scope: _Function) -> set[int]:
        lines = self.ordered
        first, last = scope.body[0].lineno, scope.end_lineno or scope.lineno
        return {self.statements[line] for line in lines[bisect_left(lines, first) : bisect_right(lines, last)]}

    def _using(self, names: set[str]) -> set[int]:
        """Return the statements in functions that use one of some names."""
        lines = {line for name in names for line in self.new.uses.get(name, ())}
        return {self.statements[line] for line in lines if line in self.statements}


def _only_imports(tree: ast.Module, lines: list[int]) -> bool:
    """Return whether lines belong to imports, or to the list of exported names, alone."""
    harmless = [
        each
        for each in ast.walk(tree)
        if isinstance(each, (ast.Import, ast.ImportFrom))
        or (isinstance(each, ast.Assign) and [ast.unparse(one) for one in each.targets] == ["__all__"])
    ]
    spans = [(each.lineno, each.end_lineno or each.lineno) for each in harmless]
    return all(any(first <= line <= last for first, last in spans) for line in lines)


def _bindings(body: Sequence[ast.stmt]) -> Iterator[tuple[int, int, str]]:
    """Yield the names that statements outside functions bind, with their first and last lines."""
    pending: list[ast.stmt] = list(body)
    while pending:
        each = pending.pop()
        first = _first(each) if isinstance(each, _SCOPES) else each.lineno
        last = each.end_lineno or each.lineno
        if isinstance(each, _FUNCTIONS):
            yield first, last, each.name
            continue
        handlers = [one for one in ast.iter_child_nodes(each) if isinstance(one, ast.ExceptHandler)]
        pending += [one for one in ast.iter_child_nodes(each) if isinstance(one, ast.stmt)]
        pending += [one for handler in handlers for one in handler.body]
        match each:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((first, last, (one.asname or one.name).partition(".")[0]) for one in names)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                named = (one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name))
                yield from ((first, last, name) for name in named)
            case _:
                continue
