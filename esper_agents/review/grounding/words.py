"""Words of questions and identifiers in one form: split, without endings, abbreviations written out."""

from __future__ import annotations

import re
import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SPOKEN = re.compile(r"[A-Za-z_][\w]*(?:['-][A-Za-z]+)*")
_LONGEST_WORD, _SHORTEST_STEM = 60, 3
# `position` and `positive` are two words, `attention` and `attentive` are one.
_SHORTEST_OF_NOUN = 6
_ENDINGS = (
    ("izations", "iz"),
    ("ization", "iz"),
    ("isation", "iz"),
    ("ations", ""),
    ("ation", ""),
    ("ically", "ic"),
    ("ments", ""),
    ("ment", ""),
    ("ibility", ""),
    ("ible", ""),
    ("able", ""),
    ("ision", ""),
    ("ising", "iz"),
    ("izing", "iz"),
    ("ised", "iz"),
    ("ized", "iz"),
    ("ises", "iz"),
    ("izes", "iz"),
    ("ise", "iz"),
    ("ize", "iz"),
    ("ness", ""),
    ("ions", ""),
    ("ion", ""),
    ("ives", ""),
    ("ive", ""),
    ("ings", ""),
    ("ing", ""),
    ("ies", "y"),
    ("ied", "y"),
    ("sses", "ss"),
    ("ed", ""),
    ("ers", ""),
    ("er", ""),
    ("es", ""),
    ("ly", ""),
    ("s", ""),
    ("e", ""),
)


class SpokenWord(NamedTuple):
    """A word of a question.

    Attributes:
        text: As written.
        terms: Its terms: an identifier and an abbreviation may have several.
        begin: Position of its first character.
        end: Position after its last character.
    """

    text: str
    terms: tuple[str, ...]
    begin: int
    end: int


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


@cache
def _tables() -> tuple[dict[str, str], frozenset[str]]:
    return _data()["abbreviations"], frozenset(_data()["common"]["words"].split())


@cache
def pronouns() -> frozenset[str]:
    """Return the words that mean what an earlier clause is about."""
    return frozenset(_data()["pronouns"]["words"].split())


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return a word without its ending, so that `decoupled` and `decoupling` are one."""
    word = word.lower()
    for ending, instead in _ENDINGS:
        rest = len(word) - len(ending)
        shortest = _SHORTEST_OF_NOUN if ending.startswith(("ion", "ive")) else _SHORTEST_STEM
        if word.endswith(ending) and rest >= shortest and not (ending == "s" and word[-2] in "su"):
            word = word[:rest] + instead
            break
    # `clipping` is `clip`.
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > _SHORTEST_STEM else word


@lru_cache(maxsize=100_000)
def terms_of(identifier: str) -> tuple[str, ...]:
    """Return the terms of an identifier: its words, written out and without endings."""
    abbreviations, _ = _tables()
    found: list[str] = []
    for part in _PART.findall(identifier[:_LONGEST_WORD].replace("-", "_")):
        written = abbreviations.get(part.lower(), part)
        found += [stem(each) for each in written.split()]
    return tuple(found)


@cache
def abbreviations_of(terms: tuple[str, ...]) -> tuple[str, ...]:
    """Return the abbreviations that stand for terms in a row, such as `wd` for those of `weight decay`."""
    abbreviations, _ = _tables()
    return tuple(short for short, words in abbreviations.items() if tuple(map(stem, words.split())) == terms)


@cache
def _common_stems() -> frozenset[str]:
    return frozenset(_tables()[1])


def is_common(word: str) -> bool:
    """Return whether a word says nothing about which code is meant."""
    return word.lower().replace("'", "") in _common_stems() or (len(word) < 2 and not word.isdigit())  # noqa: PLR2004


def spoken_words(text: str) -> list[SpokenWord]:
    """Return the words of a text with their terms, common ones included."""
    return [
        SpokenWord(match.group(), terms_of(match.group().replace("'", "")), match.start(), match.end())
        for match in _SPOKEN.finditer(text)
    ]


def is_near(one: str, other: str) -> bool:
    """Return whether two long terms differ by one typing error."""
    if min(len(one), len(other)) < 5 or abs(len(one) - len(other)) > 1 or one[0] != other[0]:  # noqa: PLR2004
        return False
    begin = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    rest, tail = one[begin:], other[begin:]
    if len(rest) == len(tail):
        return rest[1:] == tail[1:] or (rest[:2] == tail[1::-1] and rest[2:] == tail[2:])
    return rest[1:] == tail if len(rest) > len(tail) else rest == tail[1:]
