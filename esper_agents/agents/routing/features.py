"""Features of a request: words, pairs of words and character n-grams, by kind of passage."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.agents.routing.orders import order_spans
from esper_agents.agents.routing.passages import Kind, Passage, bounded, passages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Scripts without spaces: Japanese, Chinese, Korean.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_WORD = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_CLAUSE_END = re.compile(r"[,;:.!?\n()]|\s[-\u2013\u2014]\s")
_NUMBER = "0"
_LONGEST_WORD = 24
_SHORTEST_GRAM, _LONGEST_GRAM = 3, 5
# First and last words of a passage that are read.
_MOST_WORDS = 240
_MOST_PATHS = 20
# Words that deny the rest of their clause: "not a memory leak".
_NOT = frozenset({"not", "isn", "nicht", "kein", "keine", "pas"})
_AFTER_NOT = frozenset(
    {"a", "an", "the", "about", "for", "because", "due", "asking", "ein", "eine", "das", "un", "une"}
)
_BUT = frozenset({"but", "instead", "rather", "sondern", "aber", "mais", "pero"})
# Prefix and weight of the words of each kind of passage; a path has the words of a sentence.
_PREFIXES = {Kind.PROSE: "", Kind.CODE: "c", Kind.EXCEPTION: "e", Kind.FRAME: "f", Kind.PATH: ""}
_WEIGHTS = {Kind.PROSE: 10, Kind.CODE: 2, Kind.EXCEPTION: 10, Kind.FRAME: 2, Kind.PATH: 4}
_GRAM_WEIGHT = 4


class Word(NamedTuple):
    """A word of a passage.

    Attributes:
        folded: The word in lower case without accents; every number is `0`.
        start: Its start in the passage.
        end: Its end.
    """

    folded: str
    start: int
    end: int


class Feature(NamedTuple):
    """A feature of a request.

    Attributes:
        name: Prefix by kind, and the text.
        weight: Weight of an occurrence.
        word: Position in `RequestFeatures.words` of the word that it belongs to; -1 if none.
    """

    name: str
    weight: int
    word: int


def words(text: str) -> list[Word]:
    """Return the words of a text in order; names are split at dots, underscores and capitals."""
    found: list[Word] = []
    for match in _WORD.finditer(text):
        start = match.start()
        for part in _HUMP.split(match.group()):
            found.append(Word(_fold(part), start, start + len(part)))
            start += len(part)
    return found


@lru_cache(maxsize=20_000)
def _fold(word: str) -> str:
    if word.isascii():
        return _NUMBER if word.isdigit() else word.lower()[:_LONGEST_WORD]
    if word.isdigit():
        return _NUMBER
    if _UNSPACED.search(word):
        return unicodedata.normalize("NFKC", word).casefold()[:_LONGEST_WORD]
    bare = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in bare if not unicodedata.combining(letter))[:_LONGEST_WORD]


@lru_cache(maxsize=20_000)
def grams(word: str) -> tuple[str, ...]:
    """Return the names of the character n-grams of a folded word."""
    if _UNSPACED.search(word):
        return tuple(f"g:{word[at : at + size]}" for size in (1, 2, 3) for at in range(len(word) - size + 1))
    if len(word) < _SHORTEST_GRAM:
        return ()
    edged = f"<{word}>"
    sizes = range(_SHORTEST_GRAM, _LONGEST_GRAM + 1)
    return tuple(f"g:{edged[at : at + size]}" for size in sizes for at in range(len(edged) - size + 1))


class Stretch(NamedTuple):
    """A passage with its words.

    Attributes:
        passage: The passage.
        words: Its words; of a long passage the first and the last.
        denied: Positions of the words that the text denies.
    """

    passage: Passage
    words: list[Word]
    denied: frozenset[int]


def read_request(request: str, code: str = "", paths: Sequence[str] = ()) -> list[Stretch]:
    """Return the passages of a request with their words.

    Args:
        request: The request, with pasted traces and code.
        code: Code that is attached separately.
        paths: Paths of the task.
    """
    parts = passages(bounded(request))
    if code.strip():
        parts.append(Passage(Kind.CODE, bounded(code)))
    parts += (Passage(Kind.PATH, bounded(path)) for path in paths[:_MOST_PATHS])
    return [_stretch(part) for part in parts]


def features(stretches: Sequence[Stretch]) -> dict[str, int]:
    """Return the weight of each feature of a request; a feature that occurs twice counts once."""
    found: dict[str, int] = {}
    for stretch in stretches:
        for name, weight in _features(stretch):
            if found.get(name, weight) <= weight:
                found[name] = weight
    return found


def features_of_word(stretch: Stretch, position: int) -> Iterator[tuple[str, int]]:
    """Yield the features that one word contributes, with their weights; a pair belongs to both of its words."""
    kind, word = stretch.passage.kind, stretch.words[position].folded
    prefix, weight = _PREFIXES[kind], _WEIGHTS[kind]
    yield f"{prefix}w:{word}", weight
    for first in (position - 1, position):
        if 0 <= first < len(stretch.words) - 1:
            yield f"{prefix}b:{stretch.words[first].folded} {stretch.words[first + 1].folded}", weight // 2
    if kind in {Kind.PROSE, Kind.EXCEPTION}:
        for gram in grams(word):
            yield gram, _GRAM_WEIGHT


def _features(stretch: Stretch) -> Iterator[tuple[str, int]]:
    kind = stretch.passage.kind
    prefix, weight = _PREFIXES[kind], _WEIGHTS[kind]
    has_grams = kind in {Kind.PROSE, Kind.EXCEPTION}
    yield f"k:{kind.value}", weight
    before = None
    for position, (word, _, _) in enumerate(stretch.words):
        sign = -1 if position in stretch.denied else 1
        yield f"{prefix}w:{word}", weight * sign
        if before is not None:
            yield f"{prefix}b:{before} {word}", weight * sign
        if has_grams and word != _NUMBER:
            for gram in grams(word):
                yield gram, _GRAM_WEIGHT * sign
        before = word


def _stretch(passage: Passage) -> Stretch:
    found = words(passage.text)
    if passage.kind is Kind.PROSE:
        found = _without_orders(passage.text, found)
    if len(found) > _MOST_WORDS:
        found = found[: _MOST_WORDS // 2] + found[-_MOST_WORDS // 2 :]
    denied = frozenset(_denied(passage.text, found)) if passage.kind is Kind.PROSE else frozenset()
    return Stretch(passage, found, denied)


def _without_orders(text: str, found: list[Word]) -> list[Word]:
    """Return the words outside the sentences that give orders to the router, or all if there are no others."""
    spans = list(order_spans(text))
    kept = [word for word in found if not any(start <= word.start < end for start, end in spans)]
    return kept or found


def _denied(text: str, found: Sequence[Word]) -> Iterator[int]:
    """Yield the positions of the words that "not a ..." denies, up to the end of the clause."""
    is_denied = False
    for position, word in enumerate(found):
        before = found[position - 1] if position else word
        if word.folded in _BUT or _CLAUSE_END.search(text, before.end, word.start):
            is_denied = False
        if before.folded in _NOT and word.folded in _AFTER_NOT:
            is_denied = True
        if is_denied:
            yield position
