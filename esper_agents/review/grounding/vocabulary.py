"""Names of a project that words mean: parameters, attributes, functions, classes, options and keys."""

from __future__ import annotations

import ast
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.review.grounding.statements import SourceScope, scopes_of
from esper_agents.review.grounding.words import is_common, is_near, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.review.grounding.questions import Clause
    from esper_agents.review.tables import FileTables

_MOST_NAMES, _MOST_OWN_TERMS = 4, 8
_SHORTEST_CORRECTED, _SHORTEST_PART = 5, 3


class NameKind(StrEnum):
    """Kind of a name, the most telling first."""

    PARAMETER = "parameter"
    ATTRIBUTE = "attribute"
    FUNCTION = "function"
    CLASS = "class"
    OPTION = "option"
    VARIABLE = "variable"


_ORDER = tuple(NameKind)
_SET_BY_USERS = (NameKind.PARAMETER, NameKind.ATTRIBUTE, NameKind.OPTION)


@dataclass(frozen=True, slots=True)
class GroundedWord:
    """Words of a question and the name that they mean.

    Attributes:
        words: Words of the question.
        name: The name.
        kind: Its kind.
        path: File of its first definition.
        line: Line of it.
        owner: Qualified name of the definition that it belongs to, or its own.
        weight: Weight of the name: high if its terms are rare and many.
    """

    words: str
    name: str
    kind: NameKind
    path: str
    line: int
    owner: str
    weight: float = 0.0


@dataclass(slots=True)
class Vocabulary:
    """Names and terms of files.

    Attributes:
        scopes: Scopes of the files.
        names: Places of the names, by name: kind, scope and line.
        by_terms: Names by their terms.
        counts: Number of scopes with a term.
        references: Number of statements with a name.
        joined: Classes by their name in small letters: who writes `vgae` means `VGAE` and `VgAe`.
    """

    scopes: list[SourceScope]
    names: dict[str, list[tuple[NameKind, SourceScope, int]]] = field(default_factory=lambda: defaultdict(list))
    by_terms: dict[tuple[str, ...], list[str]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    references: Counter[str] = field(default_factory=Counter)
    joined: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def weight(self, term: str) -> float:
        """Return the weight of a term: its inverse document frequency over the scopes; 0 if no scope has it."""
        count = self.counts.get(term, 0)
        return math.log(1 + (len(self.scopes) - count + 0.5) / (count + 0.5)) if count else 0.0

    def referred(self, name: str) -> int:
        """Return the number of statements that have a name."""
        return self.references[name]

    def expanded(self, term: str) -> tuple[str, ...]:
        """Return the known terms that a term stands for: itself, without a typing error, or two in one word."""
        corrected = self.corrected(term)
        if corrected not in self.counts:
            for at in range(_SHORTEST_PART, len(term) - _SHORTEST_PART + 1):
                if term[:at] in self.counts and term[at:] in self.counts:
                    return term[:at], term[at:]
        return (corrected,)

    def corrected(self, term: str) -> str:
        """Return a known term that differs by one typing error; the term itself if it is known or there is none."""
        if term in self.counts or len(term) < _SHORTEST_CORRECTED:
            return term
        return next((known for known in sorted(self.counts) if is_near(term, known)), term)


def vocabulary_of(files: Sequence[FileTables]) -> Vocabulary:
    """Return the names and terms of files."""
    found = Vocabulary([scope for file in files for scope in scopes_of(file)])
    for scope in found.scopes:
        found.counts.update(scope.terms.keys() | scope.name_terms)
        _add_names(found, scope)
        for statement in scope.statements:
            found.references.update(statement.names)
    for name in found.names:
        if len(terms := terms_of(name)) <= _MOST_OWN_TERMS:
            found.by_terms[terms].append(name)
        if any(kind is NameKind.CLASS for kind, _, _ in found.names[name]):
            found.joined[name.lower()].append(name)
    return found


def _add_names(found: Vocabulary, scope: SourceScope) -> None:
    """Add the names that a scope defines."""
    for name, kind, line in _defined(scope):
        found.names[name].append((kind, scope, line))


def _defined(scope: SourceScope) -> Iterator[tuple[str, NameKind, int]]:
    is_class = isinstance(scope.node, ast.ClassDef)
    if not isinstance(scope.node, ast.Module):
        yield scope.node.name, NameKind.CLASS if is_class else NameKind.FUNCTION, scope.line
    for parameter in scope.parameters:
        yield parameter.arg, NameKind.PARAMETER, parameter.lineno
    for statement in scope.statements:
        for target in _targets(statement.node):
            if isinstance(target, ast.Attribute):
                yield target.attr, NameKind.ATTRIBUTE, statement.line
            elif isinstance(target, ast.Name):
                yield target.id, NameKind.ATTRIBUTE if is_class else NameKind.VARIABLE, statement.line
        for each in ast.walk(statement.node) if "add_argument" in statement.names else ():
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.startswith("--"):
                yield each.value.lstrip("-").replace("-", "_"), NameKind.OPTION, statement.line


def _targets(node: ast.stmt) -> Iterable[ast.expr]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        yield from (each for each in parts if each is not None)


def grounded_words(clause: Clause, known: Vocabulary) -> list[GroundedWord]:
    """Return the names that words of a clause mean, those with the most and rarest terms first; at most four."""
    found: dict[str, GroundedWord] = {}
    taken: set[str] = set()
    for terms, words in clause.runs():
        corrected = tuple(known.corrected(term) for term in terms)
        if len(corrected) == 1 and (is_common(words) or corrected[0] in taken):
            continue
        if set(corrected) <= taken:
            continue
        names = (
            [words] if words in known.names else known.by_terms.get(corrected) or known.joined.get(words.lower(), [])
        )
        for name in sorted(names, key=lambda each: _rank(each, known))[:1]:
            kind, scope, line = min(known.names[name], key=lambda place: _ORDER.index(place[0]))
            weight = sum(known.weight(term) for term in corrected)
            found.setdefault(name, GroundedWord(words, name, kind, scope.file.path, line, scope.name, weight))
            taken |= set(corrected)
    if not any(len(terms_of(name)) > 1 for name in found):
        for each in _scattered(clause, known):
            found.setdefault(each.name, each)
    return sorted(found.values(), key=lambda each: -each.weight)[:_MOST_NAMES]


def _scattered(clause: Clause, known: Vocabulary) -> list[GroundedWord]:
    """Return the parameters, attributes and options all whose words a clause has, if not in a row; at most one."""
    spoken = {known.corrected(term): word.text for word in clause.words for term in word.terms}
    telling = {known.corrected(term) for term in clause.terms}
    best: tuple[float, GroundedWord] | None = None
    for terms, names in known.by_terms.items():
        if len(terms) < 2 or not spoken.keys() >= set(terms) or len(telling & set(terms)) < 1:  # noqa: PLR2004 - a run
            continue
        for name in names:
            kind, scope, line = min(known.names[name], key=lambda place: _ORDER.index(place[0]))
            weight = sum(known.weight(term) for term in terms)
            if kind in _SET_BY_USERS and (best is None or weight > best[0]):
                words = " ".join(dict.fromkeys(spoken[term] for term in terms))
                best = weight, GroundedWord(words, name, kind, scope.file.path, line, scope.name, weight)
    return [best[1]] if best is not None else []


def _rank(name: str, known: Vocabulary) -> tuple[int, int]:
    places = known.names[name]
    return min(_ORDER.index(kind) for kind, _, _ in places), -len(places)
