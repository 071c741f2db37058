"""Tests of definitions: which have none, and the cases that a test needs, by line."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, Fact, FactQuery
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.tables import Class, Function, Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables

_MOST_DEFINITIONS, _MOST_CASES, _LONGEST, _SHORTEST = 12, 8, 60, 4
_ERROR = re.compile(r"(?:Error|Exception|Warning)$")


class TestCases(FactQuery):
    """Definitions that no test of the project calls, and the cases of a definition that a test should cover."""

    __test__ = False
    name = "test-cases"
    topics = ("tests",)
    claim = "some of the definitions have no test"
    category = Category.COMPANION
    unseen = "tests outside this project, and what the tests assert"
    bad = "def scale(x, factor):\n    if factor <= 0:\n        raise ValueError(factor)\n    return x * factor\n"
    good = "LIMIT = 3\n"

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield what has no test; for named definitions the cases as well."""
        named = {symbol for symbol in subject.symbols if ":" in symbol}
        shown = 0
        for file in files:
            if file.purpose is Purpose.TEST or file.path == "setup.py":
                continue
            for found in _definitions(file):
                methods = _named_methods(found, named)
                is_named = bool(methods) or f"{file.path}:{found.name}" in named
                if (named and not is_named) or shown >= _MOST_DEFINITIONS:
                    continue
                if not is_named and not _is_worth_it(found):
                    continue
                shown += 1
                has_cases = is_named or len(_definitions(file)) <= 2  # noqa: PLR2004 - a short list
                yield from self._of(found, index, methods or _methods(found) if has_cases else ())

    def _of(self, found: Class | Function, index: ProjectIndex, methods: Sequence[Function]) -> Iterator[Fact]:
        used = _uses_in_tests(found, index)
        if used:
            places = ", ".join(used[:2]) + (f" and {len(used) - 2} more" if len(used) > 2 else "")  # noqa: PLR2004
            yield _about(found, Assessment.FINE, f"`{found.name}` is used by tests: {places}")
        else:
            text = f"no test in this project uses `{found.name}`"
            draft = f"`esper torch test {found.file.path}:{_called(found)}` drafts one"
            yield _about(found, Assessment.SHOULD_CHECK, text, draft)
        yield from _cases(found, methods)


def _definitions(file: FileTables) -> list[Class | Function]:
    functions = [each for each in file.functions[0].inner if each.owner is None]
    return sorted([*file.classes, *functions], key=lambda each: getattr(each.node, "lineno", 0))


def _is_worth_it(found: Class | Function) -> bool:
    """Return whether a definition is public and more than a few lines."""
    length = (getattr(found.node, "end_lineno", 0) or 0) - getattr(found.node, "lineno", 0) + 1
    is_error = isinstance(found, Class) and any(_ERROR.search(ast.unparse(base)) for base in found.node.bases)
    return not (found.name.startswith("_") or is_error) and found.name != "main" and length >= _SHORTEST


def _uses_in_tests(found: Class | Function, index: ProjectIndex) -> list[str]:
    """Return the places of tests that name a definition."""
    places = []
    for file in index.files.values():
        if file.purpose is not Purpose.TEST or found.name not in file.text:
            continue
        node = next((each for each in walk(file.tree) if _names(each, found.name)), None)
        if node is not None:
            places.append(f"{file.path}:{node.lineno}")
    return places


def _names(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)


def _methods(found: Class | Function) -> list[Function]:
    return [found] if isinstance(found, Function) else list(found.methods.values())


def _named_methods(found: Class | Function, named: set[str]) -> list[Function]:
    """Return the methods of a class that are named as `FILE.py:Class.method`."""
    owned = [] if isinstance(found, Function) else list(found.methods.values())
    return [each for each in owned if f"{found.file.path}:{each.qualname}" in named]


def _cases(found: Class | Function, methods: Sequence[Function]) -> Iterator[Fact]:
    """Yield the cases of a definition: errors, branches, modes and values that its methods change."""
    facts: list[Fact] = []
    for method in methods:
        for node in walk(method.node):
            match node:
                case ast.If(test=test, body=[ast.Raise(exc=ast.expr() as raised), *_]):
                    kind = tail_of(dotted(raised.func if isinstance(raised, ast.Call) else raised))
                    text = f"case: `{kind}` if `{_short(test)}`"
                    facts.append(_at(found, node, Assessment.DESCRIPTION, text, f"`with pytest.raises({kind}):`"))
                case ast.If(test=test):
                    asks_mode = "self.training" in ast.unparse(test)
                    text = "case: training and evaluation" if asks_mode else f"case: `{_short(test)}` true and false"
                    facts.append(_at(found, node, Assessment.DESCRIPTION, text))
                case ast.For(iter=over) if not isinstance(over, ast.Tuple | ast.List):
                    facts.append(
                        _at(found, node, Assessment.DESCRIPTION, f"case: `{_short(over)}` empty, and with one")
                    )
                case ast.BinOp(op=ast.Div(), right=ast.Name() | ast.Attribute() | ast.Call() as divisor):
                    facts.append(_at(found, node, Assessment.DESCRIPTION, f"case: `{_short(divisor)}` is 0"))
                case _:
                    pass
    yield from sorted(dict.fromkeys(facts), key=lambda each: each.line)[:_MOST_CASES]


def _about(found: Class | Function, assessment: Assessment, text: str, remedy: str = "") -> Fact:
    """Return a fact about a whole definition."""
    last = getattr(found.node, "end_lineno", None) or 0
    fact = _at(found, found.node, assessment, text, remedy)
    return replace(fact, end_line=max(last, fact.line), definitions=(f"{found.file.path}:{_called(found)}",))


def _called(found: Class | Function) -> str:
    """Return what a test calls: a class whose objects are called, else its method that does most."""
    methods = found.methods if isinstance(found, Class) else {}
    if not methods or "forward" in methods or "__call__" in methods:
        return found.name
    public = {name: each for name, each in methods.items() if not name.startswith("_")}
    main = max(public, key=lambda name: _length(public[name]), default="")
    return f"{found.name}.{main}" if main else found.name


def _length(found: Class | Function) -> int:
    return (getattr(found.node, "end_lineno", 0) or 0) - getattr(found.node, "lineno", 0)


def _at(found: Class | Function, node: ast.AST, assessment: Assessment, text: str, remedy: str = "") -> Fact:
    line = getattr(node, "lineno", 1)
    return Fact(assessment, found.file.path, line, text, remedy, line)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).replace("`", "'").split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
