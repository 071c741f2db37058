"""Catalogues of operations and concepts, from `operations.toml` and `concepts.toml`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.review.grounding.words import is_common, spoken_words, terms_of

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_FOLDER = Path(__file__).parent
# A statement is searched up to here: patterns take time with its length.
_LONGEST_SEARCHED = 600
_LONGEST_GROUP = 60
_MOST_SAYINGS = 2


@dataclass(frozen=True, slots=True)
class KnownOperation:
    """What a common operation does.

    Attributes:
        name: Its name.
        pattern: Its form in a statement.
        does: What it does, in one sentence without a full stop; `{name}` is a group of the pattern.
        check: Python that runs with torch and shows it; empty if a source says so.
        source: Page that says so; empty if a check shows it.
        is_quiet: Whether it is said only if the question has one of its words, or is about one of its concepts.
        concepts: Names of these concepts.
    """

    name: str
    pattern: re.Pattern[str]
    does: str
    check: str = ""
    source: str = ""
    is_quiet: bool = False
    concepts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Concept:
    """Words of questions and the code that is about them.

    Attributes:
        name: Its name.
        asked: Runs of terms by which people ask; the last term of a run may end with `*`.
        code: Its form in statements.
        absent: What is not so if no line has it, as the rest of "no line ..."; empty if nothing is to be said.
        options: Names whose defaults belong to the answer.
    """

    name: str
    asked: tuple[tuple[str, ...], ...]
    code: re.Pattern[str]
    absent: str = ""
    options: tuple[str, ...] = ()


@cache
def operations() -> tuple[KnownOperation, ...]:
    """Return the operations."""
    data = tomllib.loads((_FOLDER / "operations.toml").read_text(encoding="utf-8"))
    return tuple(
        KnownOperation(**{**each, "pattern": re.compile(each["pattern"]), "concepts": tuple(each.get("concepts", ()))})
        for each in data["operation"]
    )


@cache
def _terms(sentence: str) -> frozenset[str]:
    return frozenset(term for word in spoken_words(sentence) if not is_common(word.text) for term in word.terms)


@cache
def concepts() -> tuple[Concept, ...]:
    """Return the concepts."""
    data = tomllib.loads((_FOLDER / "concepts.toml").read_text(encoding="utf-8"))
    return tuple(
        Concept(
            each["name"],
            tuple(tuple(phrase.lower().split()) for phrase in each["asked"]),
            re.compile(each["code"]),
            each.get("absent", ""),
            tuple(each.get("options", ())),
        )
        for each in data["concept"]
    )


def operations_in(text: str, terms: AbstractSet[str] = frozenset(), asked: AbstractSet[str] = frozenset()) -> list[str]:
    """Return what the operations in a statement do, at most two sentences.

    Args:
        text: The statement.
        terms: Terms of the question: a quiet operation is said if it has one of them.
        asked: Names of the concepts that the question is about.
    """
    found: list[str] = []
    for operation in operations():
        match = operation.pattern.search(text[:_LONGEST_SEARCHED])
        if match is None:
            continue
        groups = {name: (value or "").strip()[:_LONGEST_GROUP] for name, value in match.groupdict().items()}
        does = operation.does.format(**groups)
        if not operation.is_quiet or _terms(operation.does) & terms or asked & set(operation.concepts):
            found.append(does)
    return found[:_MOST_SAYINGS]


def concepts_asked(clause: str) -> list[tuple[Concept, frozenset[str]]]:
    """Return the concepts that a clause asks about, with the terms of its words that name them."""
    words = [word.text.lower().replace("-", " ").replace("_", " ") for word in spoken_words(clause)]
    flat = [part for word in words for part in word.split()]
    found = []
    for concept in concepts():
        terms = {
            term for phrase in concept.asked for run in _runs(flat, phrase) for part in run for term in terms_of(part)
        }
        if terms:
            found.append((concept, frozenset(terms)))
    return found


def _runs(words: list[str], phrase: tuple[str, ...]) -> list[list[str]]:
    """Return the runs of words that a phrase matches."""
    length = len(phrase)
    return [
        words[begin : begin + length]
        for begin in range(len(words) - length + 1)
        if all(_is_same(words[begin + offset], piece) for offset, piece in enumerate(phrase))
    ]


def _is_same(word: str, piece: str) -> bool:
    return word.startswith(piece[:-1]) if piece.endswith("*") else word == piece
