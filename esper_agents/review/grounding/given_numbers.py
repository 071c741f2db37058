"""Numbers that a question gives to names of the code, and what the code computes with them."""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING

from esper_agents.review.grounding.following import NameFact
from esper_agents.review.grounding.saying import quoted
from esper_agents.review.grounding.words import is_common, terms_of
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from esper_agents.review.grounding.statements import CodeStatement
    from esper_agents.review.grounding.vocabulary import Vocabulary

_NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
# `margin=20`, `num_mini_batches 8` and `batch size of 64`: an identifier or words, then the number.
_AFTER = re.compile(rf"\b(?P<name>[A-Za-z_]\w*)\s*(?:=|:|\bis\b|\bof\b)?\s*(?P<number>{_NUMBER})(?![\w%]|\.\d)")
# `4 envs`: the number, then a word.
_BEFORE = re.compile(r"(?<![\w.])(?P<number>\d+)\s+(?P<name>[A-Za-z_]{3,})")
# Words that only say that a name counts something.
_COUNTING = frozenset(term for word in ("num", "n", "of", "count", "size", "total") for term in terms_of(word))
# Words before a result, by which an answer recognizes it.
YOUR_NUMBERS = "with your numbers"
_LONGEST_QUESTION, _MOST_FACTS, _LEAST_NAMES, _LARGEST = 1_500, 3, 2, 1e12
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def given_numbers(question: str) -> dict[frozenset[str], float]:
    """Return the numbers that a question gives to names, by the terms of the name.

    Args:
        question: Words of a request; the first 1,500 characters are read.
    """
    found: dict[frozenset[str], float] = {}
    for pattern in (_AFTER, _BEFORE):
        for match in pattern.finditer(question[:_LONGEST_QUESTION]):
            terms = _telling(match["name"])
            # A fraction beside a word is what somebody measured, unless it is set: `p=0.1`.
            is_set = match["number"].isdigit() or "=" in match.group()
            if terms and is_set and not is_common(match["name"]):
                found.setdefault(terms, float(match["number"]))
    return found


def computed_facts(question: str, known: Vocabulary) -> list[tuple[NameFact, float]]:
    """Return what arithmetic of the code gives with the numbers of a question, and the result.

    Only expressions are computed that hold at least two of the given names and nothing else that is unknown.

    Args:
        question: Words of a request.
        known: Names and terms of the project.
    """
    given = given_numbers(question)
    if len(given) < _LEAST_NAMES:
        return []
    found: dict[str, tuple[NameFact, float]] = {}
    owners: dict[str, set[str]] = {}
    for scope in known.scopes:
        if scope.file.purpose is not Purpose.CODE:
            continue
        for statement in scope.statements:
            for node, shown, result in _computed(statement, given):
                where = f"`{scope.name}`" if scope.name else f"`{scope.file.path.rpartition('/')[2]}`"
                text = f"{where} computes {quoted(ast.unparse(node))}: {YOUR_NUMBERS} {shown} = {_written(result)}"
                found.setdefault(text, (NameFact(scope.file, statement.line, text), result))
                owners.setdefault(ast.unparse(node), set()).add(scope.name.partition(".")[0])
    # Names that several classes have may be those of another one than the question is about.
    sure = [each for each in found.values() if each[1] <= 0 or _is_of_one(each[0].text, owners)]
    # A size or a count of 0 or less explains most.
    return sorted(sure, key=lambda each: each[1] > 0)[:_MOST_FACTS]


def _is_of_one(text: str, owners: Mapping[str, set[str]]) -> bool:
    return any(len(names) == 1 and quoted(node) in text and "_" in node for node, names in owners.items())


def _computed(
    statement: CodeStatement, given: Mapping[frozenset[str], float]
) -> Iterator[tuple[ast.BinOp, str, float]]:
    """Yield the largest expressions of a statement that can be computed, with their numbers and results."""
    pending: list[ast.AST] = [statement.node.test if isinstance(statement.node, ast.If | ast.While) else statement.node]
    if isinstance(statement.node, ast.For | ast.AsyncFor):
        pending = [statement.node.iter]
    elif isinstance(statement.node, ast.With | ast.AsyncWith | ast.Try | ast.Match):
        return
    while pending:
        node = pending.pop()
        if isinstance(node, ast.BinOp):
            names = {_telling(ast.unparse(each).rpartition(".")[2]) for each in _names_in(node)}
            value = _value(node, given)
            if value is not None and len(names) >= _LEAST_NAMES and abs(value) <= _LARGEST:
                yield node, _substituted(node, given), value
                continue
        pending += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]


def _names_in(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left=left, right=right):
            yield from (*_names_in(left), *_names_in(right))
        case ast.Name() | ast.Attribute():
            yield node
        case _:
            return


def _value(node: ast.expr, given: Mapping[frozenset[str], float]) -> float | None:
    """Return the value of an expression; None if a part of it is not given."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return given.get(_telling(name))
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _value(left, given), _value(right, given)
            compute = _OPERATORS.get(type(op))
            if one is None or other is None or compute is None:
                return None
            return None if not other and isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) else compute(one, other)
        case _:
            return None


def _substituted(node: ast.expr, given: Mapping[frozenset[str], float]) -> str:
    """Return an expression with its numbers instead of its names."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            sign = ast.unparse(ast.BinOp(ast.Name("a"), op, ast.Name("b")))[1:-1]
            parts = [_substituted(each, given) for each in (left, right)]
            shown = [
                f"({part})" if isinstance(each, ast.BinOp) else part
                for each, part in zip((left, right), parts, strict=True)
            ]
            return sign.join(shown)
        case _:
            value = _value(node, given)
            return _written(value) if value is not None else ast.unparse(node)


def _written(value: float) -> str:
    return str(int(value)) if value.is_integer() else f"{value:.6g}"


def _telling(name: str) -> frozenset[str]:
    """Return the terms of a name without those that only say that it counts something; all if nothing is left."""
    terms = frozenset(terms_of(name))
    return terms - _COUNTING or terms
