"""Find the passages that answer a question, by the words that they share."""

from __future__ import annotations

import math
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.tools.document_sections import TextSection

_TOKEN = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_ARGUMENTS = re.compile(r"(?<=\w)\([^()]*\)")
_SHORTEST = 3
_MOST_TERMS = 40
# A passage answers if it has a rare word of the question, and this share of the weight of all its words, by how many
# words they share.
_LEAST_SHARES = {2: 0.6, 3: 0.4}
_RARE = 0.15
# A word that no passage has counts for this part of the weight of a word that one has.
_ABSENT = 0.5


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage that shares words with a question.

    Attributes:
        passage: The passage.
        terms: The shared words, the rarest first.
        share: Weight of the shared words among those of the question, from 0 to 1.
    """

    passage: TextSection
    terms: tuple[str, ...]
    share: float


def terms_of(text: str, stops: frozenset[str]) -> tuple[str, ...]:
    """Return the words of a question without stop words; names are kept whole, and arguments of calls are skipped.

    Args:
        text: The question.
        stops: Words that carry no meaning, in lower case.
    """
    prose = _ARGUMENTS.sub(" ", text)
    words = [token.lower() for token in _TOKEN.findall(prose) if not token[0].isdigit()]
    found = dict.fromkeys(each for each in words if len(each) >= _SHORTEST and each not in stops)
    return tuple(found)[:_MOST_TERMS]


def search(passages: Sequence[TextSection], terms: Sequence[str], *, most: int = 3) -> tuple[FoundPassage, ...]:
    """Return the passages that answer a question, the best first.

    A word counts by how rare it is among the passages. Words match by their stem (the Porter stemmer of SQLite's
    full-text index).

    Args:
        passages: The passages to search.
        terms: Result of `terms_of`.
        most: Maximum number of passages.
    """
    if not passages or not terms:
        return ()
    holders = _holders(passages, terms)
    weights = {term: math.log(1 + len(passages) / len(rows)) for term, rows in holders.items() if rows}
    absent = [term for term, rows in holders.items() if not rows]
    total = sum(weights.values()) + _ABSENT * len(absent) * math.log(1 + len(passages))
    found = []
    for number, passage in enumerate(passages):
        shared = sorted((term for term in weights if number in holders[term]), key=lambda term: -weights[term])
        is_rare = any(len(holders[term]) <= max(1, _RARE * len(passages)) for term in shared)
        share = sum(weights[term] for term in shared) / total if total else 0.0
        if is_rare and share >= _LEAST_SHARES.get(min(len(shared), max(_LEAST_SHARES)), math.inf):
            found.append(FoundPassage(passage, tuple(shared), round(share, 3)))
    return tuple(sorted(found, key=lambda each: -each.share)[:most])


def is_in(term: str, line: str) -> bool:
    """Return whether a line has a word of the same beginning, which is about the same stem."""
    return term[: max(_SHORTEST, len(term) - 2)] in line.lower()


def _holders(passages: Sequence[TextSection], terms: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return the numbers of the passages that contain each word."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE VIRTUAL TABLE passages USING fts5(heading, body, tokenize = \"porter unicode61 tokenchars '_'\")"
        )
        rows = ((number, each.heading, f"{each.text} {_split(each.text)}") for number, each in enumerate(passages))
        database.executemany("INSERT INTO passages (rowid, heading, body) VALUES (?, ?, ?)", rows)
        asked = "SELECT rowid FROM passages WHERE passages MATCH ?"
        return {
            term: frozenset(number for (number,) in database.execute(asked, ('"' + term.replace('"', "") + '"',)))
            for term in terms
        }


def _split(text: str) -> str:
    """Return the parts of the names in a text, so that `dead_code` is found by `code`."""
    names = (token for token in _TOKEN.findall(text) if "_" in token or any(map(str.isupper, token[1:])))
    return " ".join(part for name in names for part in _PART.findall(name) if len(part) > 1)
