"""Answers to a question from code: the decisive lines first, then what belongs to them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.grounding.catalogue import operations_in
from esper_agents.review.grounding.following import NameFact, default_of, unused, way_of
from esper_agents.review.grounding.given_numbers import computed_facts
from esper_agents.review.grounding.questions import clauses_of
from esper_agents.review.grounding.ranking import (
    RankedStatement,
    chosen_statements,
    is_trivial,
    ranked_statements,
    term_weights,
)
from esper_agents.review.grounding.saying import said
from esper_agents.review.grounding.statements import reads_name
from esper_agents.review.grounding.vocabulary import NameKind, grounded_words, vocabulary_of
from esper_agents.review.grounding.words import terms_of
from esper_agents.review.names import dotted, tail_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from esper_agents.review.grounding.catalogue import Concept
    from esper_agents.review.grounding.questions import Clause
    from esper_agents.review.grounding.statements import CodeStatement, SourceScope
    from esper_agents.review.grounding.vocabulary import GroundedWord, Vocabulary
    from esper_agents.review.tables import FileTables

# Least share of the words' weight that a decisive line has.
_LEAST_AGREEMENT, _LEAST_UNNAMED = 0.42, 0.56
_MOST_STATEMENTS, _LEAST_SHARE, _NEARLY, _MORE = 5, 0.6, 0.65, 0.3
_MOST_DETAILS, _MOST_FOLLOWED, _MOST_NEXT, _MOST_USES = 6, 2, 1, 2
_MOSTLY, _OF_WRITTEN_CLASS = 0.45, 1.5
_OF_NAMED_CLASS, _LEAST_SPOKEN, _LEAST_BESIDE = 1.25, 0.3, 0.45
_MOST_FIRST, _MOST_REST = 2, 3
_DEFINITIONS = (NameKind.CLASS, NameKind.FUNCTION)
_FOLLOWED = (NameKind.PARAMETER, NameKind.ATTRIBUTE, NameKind.OPTION)
_DEFAULT = frozenset(("default", "defaults", "standardmäßig"))


@dataclass(frozen=True, slots=True)
class ClauseAnswer:
    """Answer to one clause of a question.

    Attributes:
        words: Words of the clause.
        leads: Decisive lines; empty if no line decides.
        details: Lines that belong to them.
        names: Names that its words mean.
    """

    words: str
    leads: tuple[NameFact, ...]
    details: tuple[NameFact, ...]
    names: tuple[GroundedWord, ...]


def answers_to(question: str, files: Sequence[FileTables]) -> tuple[ClauseAnswer, ...]:
    """Return the answers to the clauses of a question from the code of files.

    Args:
        question: Words of a request.
        files: Files in question.
    """
    clauses = clauses_of(question)
    known = vocabulary_of(files)
    found = []
    said_before: set[str] = set()
    for clause in clauses:
        names = grounded_words(clause, known)
        answer = _answer(clause, names, [each for each in clauses if each is not clause], known)
        new = [fact for fact in answer.details if fact.text not in said_before]
        leads = [fact for fact in answer.leads if fact.text not in said_before]
        said_before |= {fact.text for fact in (*answer.leads, *answer.details)}
        found.append(ClauseAnswer(clause.text, tuple(leads), tuple(new), tuple(names)))
    return (*_computed(question, known), *found)


def _computed(question: str, known: Vocabulary) -> Iterator[ClauseAnswer]:
    """Yield what the code computes with the numbers of a question; a result of 0 or less decides."""
    computed = computed_facts(question, known)
    leads = tuple(fact for fact, result in computed if result <= 0)
    if computed:
        yield ClauseAnswer(question, leads, tuple(fact for fact, result in computed if result > 0), ())


def _answer(clause: Clause, names: Sequence[GroundedWord], others: Sequence[Clause], known: Vocabulary) -> ClauseAnswer:
    weights = term_weights(clause, others, known)
    own = {
        term: weight
        for term, weight in weights.items()
        if term in {part for each in clause.terms for part in known.expanded(each)}
    }
    ranked = _by_class(clause, ranked_statements(clause, names, weights, known), names)
    ranked = _of_written_definitions(ranked, names, known)
    chosen = _without_heads(chosen_statements(ranked, weights, most=_MOST_STATEMENTS, least=_LEAST_SHARE))
    absent = list(_absent(clause, names, chosen, known))
    options = [fact for concept, _ in clause.concepts for name in concept.options for fact in default_of(name, known)]
    ways = [way_of(each.name, known, _preferred(names)) for each in _followed(names)]
    settable = [each for each in names if each.kind in _FOLLOWED and clause.is_code(each.words)]
    unread = [fact for each in settable for fact in unused(each.name, known)]
    about = [fact for way in ways for fact in way.facts]
    leading = _leading(clause, ranked, chosen, names, own) if chosen else []
    if absent and _weight_of_absent(clause, own, known) < _MOSTLY:
        # What the clause asks besides decides.
        absent, leads = [], [*map(_fact, leading), *absent]
    else:
        leads = [*absent, *options[:1], *(() if absent else map(_fact, leading))]
    is_setting = bool(names) and (len(terms_of(names[0].name)) > 1 or len(names) == 1)
    if about and is_setting and _DEFAULT & {word.text.lower() for word in clause.words}:
        leads = [about[0], *leads]
    elif about and is_setting and own.keys() <= set(terms_of(names[0].name)):
        # Nothing but the name is asked about.
        leads = [*leads[:1], about[0]]
    leads = [*unread, *(leads if not unread else leads[:1])]
    details: list[NameFact] = []
    if leads:
        after = [_fact_of(each) for one in (leading or chosen[:1]) for each in _next(one.statement)]
        beside = [each for each in chosen if each not in leading or absent]
        about = [] if absent else about
        beside = [] if absent and not names else beside
        rest = [
            _fact(each)
            for each in beside
            if each.spoken >= (_LEAST_BESIDE if absent else _LEAST_SPOKEN) or (options and each.is_named)
        ]
        uses = [_fact_of(each) for way in ways for each in way.uses[:_MOST_USES]]
        details = [*after, *about[:_MOST_FIRST], *rest[:_MOST_REST], *about[_MOST_FIRST:], *rest[_MOST_REST:], *uses]
    details = _facts_of_written(details, names, known)
    unique = {fact.text: fact for fact in reversed(details) if fact not in leads}
    kept = [fact for fact in dict.fromkeys(details) if unique.get(fact.text) is fact]
    return ClauseAnswer(clause.text, tuple(dict.fromkeys(leads)), tuple(kept[:_MOST_DETAILS]), tuple(names))


def _of_written_definitions(
    ranked: Sequence[RankedStatement], names: Sequence[GroundedWord], known: Vocabulary
) -> list[RankedStatement]:
    """Return the statements of the definitions that a clause writes as they are, and of what these use.

    Lines elsewhere that share words with the question do not answer it. All statements are returned if it writes none.
    """
    meant = _written_definitions(names, known)
    return [each for each in ranked if not meant or _is_within(each.statement.scope, meant)]


def _facts_of_written(facts: Sequence[NameFact], names: Sequence[GroundedWord], known: Vocabulary) -> list[NameFact]:
    """Return the facts about lines of the definitions that a clause writes, or of what these use; all without any."""
    meant = _written_definitions(names, known)
    scopes = [scope for scope in known.scopes if meant and _is_within(scope, meant)]

    def is_inside(fact: NameFact) -> bool:
        return any(
            scope.file is fact.file and scope.line <= fact.line <= (getattr(scope.node, "end_lineno", None) or 0)
            for scope in scopes
        )

    return [fact for fact in facts if not meant or is_inside(fact)]


def _written_definitions(names: Sequence[GroundedWord], known: Vocabulary) -> set[str]:
    """Return the classes and functions that a clause writes as they are, with those that they use."""
    written = {each.name for each in names if each.kind in _DEFINITIONS and each.words == each.name}
    used = {
        name
        for scope in known.scopes
        if written and _is_within(scope, written)
        for name in (*_bases(scope.node), *(name for statement in scope.statements for name in statement.names))
    }
    return written | used


def _is_within(scope: SourceScope, definitions: Collection[str]) -> bool:
    return bool(scope.name) and scope.name.partition(".")[0] in definitions


def _bases(node: ast.AST) -> list[str]:
    bases = node.bases if isinstance(node, ast.ClassDef) else ()
    return [name for base in bases for name in (tail_of(dotted(base)),) if name]


def _leading(
    clause: Clause,
    ranked: Sequence[RankedStatement],
    chosen: Sequence[RankedStatement],
    names: Sequence[GroundedWord],
    own: Mapping[str, float],
) -> list[RankedStatement]:
    """Return the decisive statements: one for each class of a comparison, else the best, and one nearly as good."""
    if sum(each.kind is NameKind.CLASS for each in names) > 1:
        of_classes = [each for each in _of_classes(ranked, names) if _agrees(each, own)]
        if len(of_classes) > 1:
            return of_classes
    if in_class := _in_written_class(clause, ranked, chosen[0], names):
        return in_class
    first = [each for each in chosen[:1] if _agrees(each, own)]
    second = [
        each
        for each in chosen[1:3]
        if first
        and each.is_named
        and each.score >= _NEARLY * first[0].score
        and _owner(each) == _owner(first[0])
        and _agrees(each, own)
        if any(place > first[0].places.get(term, 0.0) + _MORE for term, place in each.places.items() if term in own)
    ][:1]
    return first + second


def _in_written_class(
    clause: Clause, ranked: Sequence[RankedStatement], best: RankedStatement, names: Sequence[GroundedWord]
) -> list[RankedStatement]:
    """Return the best use of a written option in a written class, as in `Loss with swap=True`; empty without both."""
    classes = [terms_of(each.name) for each in names if each.kind is NameKind.CLASS and each.words == each.name]
    options = {each.name for each in names if each.kind in _FOLLOWED and clause.is_code(each.words)}

    def is_inside(each: RankedStatement) -> bool:
        return any(set(terms) <= each.statement.scope.name_terms for terms in classes)

    if not (classes and options) or (is_inside(best) and not is_trivial(best.statement)):
        return []
    uses = [each for each in ranked if is_inside(each) and not is_trivial(each.statement)]
    return [each for each in uses if options & each.statement.names][:1]


def _owner(each: RankedStatement) -> tuple[str, str]:
    return each.statement.scope.file.path, each.statement.scope.name.partition(".")[0]


def _without_heads(chosen: Sequence[RankedStatement]) -> list[RankedStatement]:
    """Return statements without the `if` around another of them: that says its condition itself."""
    nodes = {id(each.statement.node) for each in chosen}
    return [
        each
        for each in chosen
        if not (isinstance(each.statement.node, ast.If) and any(id(one) in nodes for one in each.statement.node.body))
    ]


def _followed(names: Sequence[GroundedWord]) -> list[GroundedWord]:
    """Return the names whose way is shown: those of several words, else the one that says most."""
    possible = [each for each in names if each.kind in _FOLLOWED]
    telling = [each for each in possible if len(terms_of(each.name)) > 1]
    return (telling or possible[:1])[:_MOST_FOLLOWED]


def _preferred(names: Sequence[GroundedWord]) -> str:
    """Return the class or function that a clause names; empty if it names none."""
    return next((each.owner for each in names if each.kind in {NameKind.CLASS, NameKind.FUNCTION}), "")


def _by_class(
    clause: Clause, ranked: Sequence[RankedStatement], names: Sequence[GroundedWord]
) -> list[RankedStatement]:
    """Return statements with those of named classes and functions first, if they are about as good."""
    owners = [each.owner for each in names if each.kind is NameKind.CLASS]
    is_written = any(each.kind is NameKind.CLASS and each.words == each.name for each in names)
    share = _OF_WRITTEN_CLASS if is_written else _OF_NAMED_CLASS
    # A function that is written as code is asked about, and not the calls of it.
    owners += [each.name for each in names if each.kind is NameKind.FUNCTION and clause.is_code(each.words)]
    if not owners:
        return list(ranked)

    def score(each: RankedStatement) -> float:
        scope = each.statement.scope
        is_of_named = any(set(terms_of(owner)) <= scope.name_terms for owner in owners)
        return each.score * (share if is_of_named else 1.0)

    return sorted(ranked, key=lambda each: -score(each))


def _of_classes(ranked: Sequence[RankedStatement], names: Sequence[GroundedWord]) -> Iterator[RankedStatement]:
    """Yield the best statement of each class that a clause names, as in `DQN vs SAC`."""
    taken: set[CodeStatement] = set()
    for each in names:
        mark = set(terms_of(each.name))
        if each.kind is not NameKind.CLASS:
            continue
        for one in ranked:
            if mark <= one.statement.scope.name_terms and one.statement not in taken:
                taken.add(one.statement)
                yield one
                break


def _agrees(each: RankedStatement, own: Mapping[str, float]) -> bool:
    """Return whether a statement has enough of the words of a clause to answer it."""
    total = sum(own.values())
    share = sum(each.places.get(term, 0.0) * weight for term, weight in own.items()) / total if total else 0.0
    return share >= (_LEAST_AGREEMENT if each.is_named else _LEAST_UNNAMED)


def _absent(
    clause: Clause, names: Sequence[GroundedWord], chosen: Sequence[RankedStatement], known: Vocabulary
) -> Iterator[NameFact]:
    """Yield what no line of the project does, of the concepts that a clause asks about."""
    for concept, _ in clause.concepts:
        if not concept.absent or _is_present(concept, known):
            continue
        files = {scope.file.path for scope in known.scopes}
        owner = _preferred(names)
        scope = next((each for each in known.scopes if each.name == owner), None) if owner else None
        if scope is None:
            scope = chosen[0].statement.scope if chosen else known.scopes[0]
        read = "the file that was read" if len(files) == 1 else f"the {len(files)} files that were read"
        where = f"`{scope.name}`: " if owner and scope.name == owner else ""
        yield NameFact(scope.file, scope.line, f"{where}no line of {read} {concept.absent}")


def _weight_of_absent(clause: Clause, own: Mapping[str, float], known: Vocabulary) -> float:
    """Return the share of a clause that names concepts which no line is about."""
    terms = {
        term
        for concept, terms in clause.concepts
        if concept.absent and not _is_present(concept, known)
        for term in terms
    }
    return sum(own.get(known.corrected(term), 0.0) for term in terms) / (sum(own.values()) or 1.0)


def _is_present(concept: Concept, known: Vocabulary) -> bool:
    return any(concept.code.search(statement.text) for scope in known.scopes for statement in scope.statements)


def _next(statement: CodeStatement) -> Iterator[CodeStatement]:
    """Yield the next statement that reads what a statement assigns."""
    match statement.node:
        case ast.Assign(targets=[ast.Name(id=name)]):
            later = [each for each in statement.scope.statements if each.line > statement.line]
            yield from [each for each in later if reads_name(each, name)][:_MOST_NEXT]
        case _:
            return


def _fact(each: RankedStatement) -> NameFact:
    return NameFact(each.statement.scope.file, each.statement.line, said(each.statement, each.operations))


def _fact_of(statement: CodeStatement) -> NameFact:
    return NameFact(statement.scope.file, statement.line, said(statement, operations_in(statement.text)))
