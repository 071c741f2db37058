"""Find the names of a project that the words of a question mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.domain.request import GroundedName
from esper_agents.requests.spoken_names import project_texts
from esper_agents.requests.vocabulary import plain
from esper_agents.review.grounding.questions import asks_about_behaviour, clauses_of
from esper_agents.review.grounding.words import abbreviations_of, is_common, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from esper_agents.review.grounding.questions import Clause

_MOST_NAMES, _MOST_RUNS, _SHORTEST = 8, 60, 2
# What stands around a name where it is defined, the most telling first.
_KINDS = (
    ("class", re.compile(rb"\bclass\s+$"), None),
    ("function", re.compile(rb"\bdef\s+$"), None),
    ("option", re.compile(rb"--$"), None),
    ("attribute", re.compile(rb"\bself\.$"), re.compile(rb"\s*(?::[^=\n]+)?=(?!=)")),
    ("parameter", re.compile(rb"[(,]\s*\*{0,2}$|^\s+$"), re.compile(rb"\s*(?:[:=](?!=)|[,)])")),
    ("name", re.compile(rb"^\s*$|[\"']$"), re.compile(rb"\s*(?:=(?!=)|[\"']\s*[:\],)])")),
)
_BEFORE, _AFTER = 40, 40
# A name with an inner underscore, such as `num_mini_batches`.
_WRITTEN = re.compile(r"\b[a-z][a-z0-9]*_[a-z0-9_]+\b")


def question_names(root: Path, prose: str, *, is_trouble: bool = False) -> tuple[GroundedName, ...]:
    """Return the names that words of a question mean, and the concepts that it asks about; empty for other requests.

    Args:
        root: The project's folder.
        prose: Words of the request.
        is_trouble: Whether the request reports a problem: with a name that is written as code it is read as a question.
    """
    if not (asks_about_behaviour(prose) or (is_trouble and _WRITTEN.search(prose))):
        return ()
    clauses = clauses_of(prose)
    runs = dict(run for clause in clauses for run in _runs(clause))
    concepts = {
        concept.name: " ".join(word.text for word in clause.words if set(word.terms) & terms)
        for clause in clauses
        for concept, terms in clause.concepts
    }
    found = _names(root, dict(list(runs.items())[:_MOST_RUNS])) if runs else ()
    asked = tuple(GroundedName(words, name, "concept") for name, words in concepts.items() if words)
    return (*found, *asked)[:_MOST_NAMES]


def _runs(clause: Clause) -> Iterator[tuple[tuple[str, ...], str]]:
    for terms, words in clause.runs():
        if terms and len("".join(terms)) >= _SHORTEST and not (len(terms) == 1 and is_common(words)):
            yield terms, words


def _names(root: Path, runs: dict[tuple[str, ...], str]) -> tuple[GroundedName, ...]:
    """Return the first definition of each name, those of the most words first."""
    forms = sorted({form for terms, words in runs.items() for form in _forms(terms, words)}, key=len, reverse=True)
    pattern = re.compile(rf"(?<![A-Za-z0-9_])_*(?:{'|'.join(forms)})(?![A-Za-z0-9_]|-[a-z])".lower().encode())
    joined = {words.lower(): terms for terms, words in runs.items()}
    found: dict[tuple[str, ...], tuple[int, GroundedName]] = {}
    for path, data in project_texts(root):
        # ASCII letters alone change, so that positions are those of the text.
        for match in pattern.finditer(data.lower()):
            name = data[match.start() : match.end()].decode("utf-8", "replace")
            terms = terms_of(name.replace("-", "_"))
            rank, kind = _kind(data, match.start(), match.end())
            # `cola` means the class `CoLA`.
            terms = joined.get(name.lower(), terms) if kind == "class" and terms not in runs else terms
            if terms not in runs or not kind or (terms in found and found[terms][0] <= rank):
                continue
            line = data.count(b"\n", 0, match.start()) + 1
            found[terms] = (rank, GroundedName(runs[terms], name, kind, path, line))
    taken: set[str] = set()
    chosen = []
    for terms in sorted(found, key=lambda each: -len(each)):
        if not set(terms) <= taken:
            chosen.append(found[terms][1])
            taken |= set(terms)
    return tuple(chosen)


def _forms(terms: tuple[str, ...], words: str) -> Iterator[str]:
    """Yield the patterns of the spellings of a run: with underscores, in one word, or abbreviated."""
    yield "[-_]?".join(
        f"(?:{'|'.join((rf'{re.escape(term)}[a-z]*', *map(re.escape, abbreviations_of((term,)))))})" for term in terms
    )
    yield from map(re.escape, abbreviations_of(terms))
    written = plain(words.replace(" ", "_"))
    if written.isidentifier():
        yield re.escape(written)


def _kind(data: bytes, begin: int, end: int) -> tuple[int, str]:
    """Return the rank and the kind of a name by what stands around it; an empty kind if it is only used there."""
    before = data[max(0, begin - _BEFORE) : begin].rpartition(b"\n")[2]
    after = data[end : end + _AFTER]
    for rank, (kind, left, right) in enumerate(_KINDS):
        if left.search(before) and (right is None or right.match(after)):
            return rank, kind
    return len(_KINDS), ""
