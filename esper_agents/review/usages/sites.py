"""Find the places in code that a usage entry is about."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.tables import Call, FileTables, Function
    from esper_agents.review.usages.entries import SitePattern

_LONGEST = 60


@dataclass(frozen=True, slots=True, eq=False)
class UsageSite:
    """One place that a usage entry is about.

    Attributes:
        file: Its file.
        function: The function that it is in.
        node: The call, the assigned value, or the attribute.
        call: The call; None for an assignment or an attribute.
        option: The argument in question; None if it is not given.
    """

    file: FileTables
    function: Function
    node: ast.expr
    call: Call | None = None
    option: ast.expr | None = None

    @property
    def line(self) -> int:
        """The line of the option if it is given, else of the name that is called."""
        if self.option is not None:
            return self.option.lineno
        if self.call is not None and isinstance(self.call.node.func, ast.Attribute):
            return self.call.node.func.end_lineno or self.node.lineno
        return self.node.lineno

    @property
    def first_line(self) -> int:
        """The first line of its statement."""
        return self.call.statement.lineno if self.call is not None else self.node.lineno

    @property
    def last_line(self) -> int:
        """The last line of the expression."""
        return self.node.end_lineno or self.node.lineno

    @property
    def code(self) -> str:
        """Its source text in one line, shortened."""
        return shown(self.node)


def shown(node: ast.AST) -> str:
    """Return source text in one line without backquotes, shortened to 70 characters."""
    text = " ".join(ast.unparse(node).replace("`", "'").split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def sites_of(pattern: SitePattern, files: Sequence[FileTables]) -> list[UsageSite]:
    """Return the places that a pattern describes, in order; those that give its option first."""
    found = [site for file in files for site in _in_file(pattern, file)]
    if pattern.is_given:
        found = [site for site in found if site.option is not None]
    return sorted(found, key=lambda site: bool(pattern.option) and site.option is None)


def _in_file(pattern: SitePattern, file: FileTables) -> Iterator[UsageSite]:
    tails = [name for name in pattern.calls if "." not in name]
    names = [name for name in pattern.calls if "." in name]
    calls = {id(call.node): call for call in (*file.calls_ending(*tails), *file.calls_to(*names))}
    if pattern.is_given:
        # A function of the project may pass the option on.
        given = (call for call in file.calls if any(each.arg == pattern.option for each in call.node.keywords))
        calls.update({id(call.node): call for call in given})
    for call in sorted(calls.values(), key=lambda each: (each.line, each.node.col_offset)):
        option = call.argument(pattern.position, pattern.option) if pattern.option else None
        yield UsageSite(file, call.function, call.node, call, option)
    for function in file.functions:
        for path, assignments in function.assignments.items():
            if path in pattern.assigned or any(path.endswith(f".{name}") for name in pattern.assigned):
                for each in assignments:
                    yield UsageSite(file, function, each.value, None, each.value)
    if pattern.attributes:
        yield from _attributes(pattern, file)


def _attributes(pattern: SitePattern, file: FileTables) -> Iterator[UsageSite]:
    called = {id(call.node.func) for call in file.calls}
    for node in walk(file.tree):
        if isinstance(node, ast.Attribute) and node.attr in pattern.attributes and id(node) not in called:
            path = dotted(node)
            # An attribute of a module or of the object itself is another thing of that name.
            if path.partition(".")[0] not in file.imports and path != f"self.{node.attr}":
                yield UsageSite(file, _function_at(file, node.lineno), node)


def _function_at(file: FileTables, line: int) -> Function:
    """Return the innermost function around a line."""
    around = [
        each
        for each in file.functions
        if not isinstance(each.node, ast.Module) and each.node.lineno <= line <= (each.node.end_lineno or line)
    ]
    return max(around, key=lambda each: getattr(each.node, "lineno", 0), default=file.functions[0])
