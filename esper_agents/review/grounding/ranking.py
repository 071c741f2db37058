"""Order the statements of a project by the words of a clause."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.grounding.catalogue import operations_in
from esper_agents.review.grounding.vocabulary import NameKind
from esper_agents.review.grounding.words import is_common, spoken_words
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from esper_agents.review.grounding.questions import Clause
    from esper_agents.review.grounding.statements import CodeStatement, SourceScope
    from esper_agents.review.grounding.vocabulary import GroundedWord, Vocabulary

# How much a term of the question counts by where it is.
_IN_STATEMENT, _IN_BLOCK, _IN_COMMENT, _IN_NAME, _IN_SCOPE, _IN_FILE = 1.0, 0.7, 0.7, 0.65, 0.3, 0.15
_BY_CONCEPT, _BY_OPERATION = 0.8, 0.8
_OF_OTHER_CLAUSE, _OF_UNKNOWN, _OF_UNKNOWN_WORD, _AS_CODE = 0.2, 0.5, 0.25, 1.6
# Bonuses in shares of the weight of a clause.
_CONCEPT, _NAME, _OPERATION, _GUARD, _GUARD_ASKED, _FORMULA = 0.18, 0.2, 0.05, 0.03, 0.45, 0.05
_REFERRED, _OTHER_NAME, _DOCUMENTED = 0.02, 0.012, 0.8
_TRIVIAL, _UNPACKING, _NO_CODE, _LONG = 0.7, 0.8, 0.6, 0.2
_LONG_TEXT = 1_500
_CHECKS = "input checks"
_DEFINITIONS = (NameKind.FUNCTION, NameKind.CLASS)
# Statements whose operations are looked up, as that takes most of the time.
_MOST_CANDIDATES, _MOST_PARTS, _MOST_ARGUMENTS = 250, 4, 5
_LONG_CALL, _DECIDES, _PASSING, _EXPLAINED = 0.85, 0.1, 0.85, 0.18
_LEAST_WEIGHT = 0.1
_COMPUTES = re.compile(r"[\w)\]] (?:[-+*/]|\*\*|//|%) [\w(]")


@dataclass(frozen=True, slots=True)
class RankedStatement:
    """A statement with how well it agrees with a clause.

    Attributes:
        statement: The statement.
        places: How much of each term it has.
        spoken: Share of the words' weight that it has by its words, without concepts and operations.
        score: Agreement: about 1 means that it has all words of the clause.
        operations: What the operations in it do.
        is_named: Whether it has a name that the clause means, or code that its concept is about.
    """

    statement: CodeStatement
    places: Mapping[str, float]
    spoken: float
    score: float
    operations: tuple[str, ...]
    is_named: bool


def term_weights(clause: Clause, others: Sequence[Clause], known: Vocabulary) -> dict[str, float]:
    """Return the weights of the terms of a clause; terms of the other clauses count less.

    A term that no scope has counts half of the rarest: what has all others is still no answer.
    """
    rarest = math.log(1 + (len(known.scopes) + 0.5) / 1.5)
    weights: dict[str, float] = {}
    for each in (clause, *others):
        share = 1.0 if each is clause else _OF_OTHER_CLAUSE
        of_concepts = {term for _, terms in each.concepts for term in terms}
        for term in each.terms:
            unknown = rarest * (_OF_UNKNOWN if term in of_concepts else _OF_UNKNOWN_WORD)
            for part in known.expanded(term):
                weight = known.weight(part) if part in known.counts else unknown
                if weight > _LEAST_WEIGHT:
                    weights.setdefault(part, weight * share * (_AS_CODE if term in each.code_terms else 1.0))
    return weights


def ranked_statements(
    clause: Clause, names: Sequence[GroundedWord], weights: Mapping[str, float], known: Vocabulary
) -> list[RankedStatement]:
    """Return the statements that agree best with a clause, the best first.

    Args:
        clause: The clause.
        names: Names that its words mean.
        weights: Weights of its terms.
        known: Names and terms of the project.
    """
    total = sum(weights.values())
    heaviest = max((each.weight for each in names), default=0.0) or 1.0
    named = {each.name: each.weight / heaviest for each in names if each.kind not in _DEFINITIONS}
    named |= _aliases(named, known)
    found: list[tuple[float, dict[str, float], float, int, CodeStatement]] = []
    for scope in known.scopes if total else ():
        base = _places(scope, weights)
        for statement in scope.statements:
            places = {term: place for term in weights if (place := _place(term, statement, base))}
            if not places and not clause.concepts:
                continue
            hits, spoken = 0, _sum(places, weights) / total
            for concept, terms in clause.concepts:
                if concept.code.search(" ".join((statement.text, *statement.around[-1:]))):
                    hits += concept.name != _CHECKS
                    for term in terms & weights.keys():
                        places[term] = max(places.get(term, 0.0), _BY_CONCEPT)
            if places:
                found.append((_sum(places, weights) / total, places, spoken, hits, statement))
    found.sort(key=lambda each: (-each[0], each[4].scope.file.path, each[4].line))
    asked = {concept.name for concept, _ in clause.concepts}
    ranked = [_scored(each, named, weights, known, asked=asked) for each in found[:_MOST_CANDIDATES]]
    return sorted(ranked, key=lambda each: (-each.score, each.statement.scope.file.path, each.statement.line))


def _aliases(named: Mapping[str, float], known: Vocabulary) -> dict[str, float]:
    """Return the attributes that names are kept as: `self.vbs = virtual_batch_size`."""
    found: dict[str, float] = {}
    for scope in known.scopes if named else ():
        for statement in scope.statements:
            match statement.node:
                case ast.Assign(targets=[ast.Attribute(attr=alias)], value=ast.Name(id=name)) if name in named:
                    found[alias] = named[name]
                case _:
                    pass
    return found


def _sum(places: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(place * weights.get(term, 0.0) for term, place in places.items())


def _scored(
    candidate: tuple[float, dict[str, float], float, int, CodeStatement],
    named: Mapping[str, float],
    weights: Mapping[str, float],
    known: Vocabulary,
    *,
    asked: AbstractSet[str],
) -> RankedStatement:
    _, places, spoken, hits, statement = candidate
    operations = tuple(operations_in(statement.text, weights.keys(), asked))
    # A name such as AdamW is an example in a sentence.
    words = [word for each in operations for word in spoken_words(each) if word.text.islower()]
    said = {term for word in words if not is_common(word.text) for term in word.terms}
    for term in said & weights.keys():
        places[term] = max(places.get(term, 0.0), _BY_OPERATION)
    # A quiet operation is common, and explains a line without making it the answer.
    is_explained = bool(said & weights.keys()) and bool(operations_in(statement.text))
    has_name = max((share for name, share in named.items() if name in statement.names), default=0.0)
    score = _sum(places, weights) / sum(weights.values())
    score *= (
        1 + _CONCEPT * min(hits, 2) + _NAME * has_name + (_EXPLAINED if is_explained else _OPERATION) * bool(operations)
    )
    is_guard = isinstance(statement.node, ast.Assert | ast.Raise) or statement.raises
    if _decides_by(statement, named.keys()):
        score *= 1 + _DECIDES
    if _only_passes(statement):
        score *= _PASSING
    score *= 1 + (
        _GUARD_ASKED
        if is_guard and _CHECKS in asked and (hits or len(asked) == 1)
        else _GUARD * isinstance(statement.node, ast.If)
    )
    score *= 1 + _FORMULA * (_COMPUTES.search(statement.text) is not None)
    score *= 1.0 if is_guard else 1 - min(_LONG, len(statement.text) / _LONG_TEXT)
    if is_trivial(statement) or passes_on(statement, named.keys()):
        score *= _TRIVIAL
    if _makes_long_call(statement):
        score *= _LONG_CALL
    if is_unpacking(statement):
        score *= _UNPACKING
    if statement.scope.file.purpose is not Purpose.CODE:
        score *= _NO_CODE
    if statement.documented:
        score *= _DOCUMENTED
    # Of equal ones, that of the definition whose name says nothing else, and that others use most.
    others = len(statement.scope.name_terms - weights.keys())
    score *= 1 - _OTHER_NAME * min(others, _MOST_PARTS)
    score *= 1 + _REFERRED * math.log1p(known.referred(statement.scope.name.partition(".")[0]))
    return RankedStatement(statement, places, spoken, score, operations, has_name > 0 or hits > 0)


def chosen_statements(
    ranked: Iterable[RankedStatement], weights: Mapping[str, float], *, most: int, least: float
) -> list[RankedStatement]:
    """Return the statements that together say most about the terms, the best first.

    Args:
        ranked: Statements, the best first.
        weights: Weights of the terms.
        most: Their largest number.
        least: Smallest score, as a share of that of the best one.
    """
    rest = list(ranked)
    chosen: list[RankedStatement] = []
    covered: dict[str, float] = {}
    texts: set[str] = set()
    while rest and len(chosen) < most:
        best = max(rest, key=lambda each: _gain(each, covered, weights))
        rest.remove(best)
        if chosen and best.score < least * chosen[0].score:
            continue
        if best.statement.text in texts:
            continue
        chosen.append(best)
        texts.add(best.statement.text)
        for term, place in best.places.items():
            covered[term] = max(covered.get(term, 0.0), place)
    return chosen


def _gain(each: RankedStatement, covered: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the score of a statement, with terms that the chosen ones have counted less."""
    whole = _sum(each.places, weights)
    new = sum(
        weights.get(term, 0.0) * (place if place > covered.get(term, 0.0) else place * _OF_UNKNOWN)
        for term, place in each.places.items()
    )
    return each.score * (new / whole if whole else 0.0)


def _places(scope: SourceScope, weights: Mapping[str, float]) -> dict[str, float]:
    """Return how much the terms count that are around the statements of a scope."""
    found: dict[str, float] = {}
    for term in weights:
        if term in scope.name_terms:
            found[term] = _IN_NAME
        elif term in scope.terms:
            found[term] = _IN_SCOPE
        elif scope.outer is not None and term in scope.outer.terms:
            found[term] = _IN_FILE
    return found


def _place(term: str, statement: CodeStatement, base: Mapping[str, float]) -> float:
    if term in statement.terms:
        return _IN_STATEMENT
    if term in statement.around_terms:
        return _IN_BLOCK
    if term in statement.comments:
        return _IN_COMMENT
    return base.get(term, 0.0)


def _decides_by(statement: CodeStatement, names: AbstractSet[str]) -> bool:
    """Return whether a statement is an `if` whose test has one of the names."""
    if not names & statement.names or not isinstance(statement.node, ast.If):
        return False
    return any(
        (each.id if isinstance(each, ast.Name) else each.attr) in names
        for each in ast.walk(statement.node.test)
        if isinstance(each, ast.Name | ast.Attribute)
    )


def _only_passes(statement: CodeStatement) -> bool:
    """Return whether a statement calls a function of the project with plain names and uses no result."""
    match statement.node:
        case ast.Expr(value=ast.Call(func=ast.Name(), args=[_, *_] as given)):
            return all(isinstance(each, ast.Name) for each in given)
        case _:
            return False


def _makes_long_call(statement: CodeStatement) -> bool:
    """Return whether a statement is a call with so many arguments that most of its words are incidental."""
    match statement.node:
        case (
            ast.Assign(value=ast.Call() as call)
            | ast.Expr(value=ast.Call() as call)
            | ast.Return(value=ast.Call() as call)
        ):
            return len(call.args) + len(call.keywords) > _MOST_ARGUMENTS
        case _:
            return False


def is_unpacking(statement: CodeStatement) -> bool:
    """Return whether a statement binds many names at once."""
    match statement.node:
        case ast.Assign(targets=[ast.Tuple(elts=parts)]):
            return len(parts) >= _MOST_PARTS
        case _:
            return False


def is_trivial(statement: CodeStatement) -> bool:  # noqa: PLR0911 - one case for each form
    """Return whether a statement only keeps, passes on or prints values under their own names."""
    match statement.node:
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Name(id=value) | ast.Attribute(attr=value)):
            is_kept = isinstance(statement.node.value, ast.Name) and statement.scope.name.endswith("__init__")
            return is_kept or name.strip("_") == value.strip("_")
        case ast.Assign(value=ast.Constant()) | ast.AnnAssign(value=None) | ast.AnnAssign(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="print" | "setattr"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="__init__"))):
            return True
        case ast.Assign(value=value) | ast.AugAssign(value=value) if any(
            isinstance(each, ast.JoinedStr) for each in (value, getattr(value, "left", None))
        ):
            # A message says what the code around it does.
            return True
        case (
            ast.Assign(value=ast.Call() as call)
            | ast.Expr(value=ast.Call() as call)
            | ast.Return(value=ast.Call() as call)
        ):
            makes_object = tail_of(dotted(call.func))[:1].isupper()
            return makes_object and bool(call.keywords) and not call.args and all(map(_is_passed, call.keywords))
        case _:
            return False


def passes_on(statement: CodeStatement, names: AbstractSet[str]) -> bool:
    """Return whether a statement has names only as arguments of the same name: `Net(momentum=self.momentum)`."""
    here = names & statement.names
    passed: set[str] = set()
    others: set[str] = set()
    pending: list[ast.AST] = [statement.node] if here else []
    for node in pending:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword) and child.arg in here and _is_passed(child):
                passed.add(child.arg or "")
                continue
            name = child.id if isinstance(child, ast.Name) else child.attr if isinstance(child, ast.Attribute) else ""
            others |= {name} & here
            pending.append(child)
    return bool(passed) and not others


def _is_passed(each: ast.keyword) -> bool:
    match each.value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_") == each.arg
        case ast.Constant():
            return True
        case _:
            return False
