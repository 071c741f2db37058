"""Match the phrases of `prompts/request_words.toml`, with typing errors, in several languages."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_TOKEN = re.compile(r"\w+")
# Scripts without spaces between words.
_SPACELESS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_UMLAUTS = {ord(umlaut): f"{vowel}e" for umlaut, vowel in zip("äöü", "aou", strict=True)}
# Shorter words differ from many others by one letter.
_SHORTEST_CORRECTED, _SHORTEST_EXCHANGED = 6, 4
_MOST_SKIPPED = 4
_ANY, _STEM, _WEAK = "*", "*", "?"


class Token(NamedTuple):
    """A word of a text.

    Attributes:
        word: Without accents and case.
        begin: Position of its first character.
        end: Position after its last character.
    """

    word: str
    begin: int
    end: int


class PhraseMatch(NamedTuple):
    """A phrase found in a text.

    Attributes:
        group: Group of the phrase.
        begin: Position of its first character.
        end: Position after its last character.
        is_weak: Whether it counts only if there is no other.
    """

    group: str
    begin: int
    end: int
    is_weak: bool


@cache
def request_words() -> Mapping[str, Any]:
    """Return the tables of `prompts/request_words.toml`."""
    return tomllib.loads((data_folder("prompts") / "request_words.toml").read_text(encoding="utf-8"))


def plain(word: str) -> str:
    """Return a word without accents and case."""
    folded = word.casefold()
    if folded.isascii():
        return folded
    decomposed = unicodedata.normalize("NFKD", folded)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def tokens(text: str) -> list[Token]:
    """Return the words of a text."""
    return [Token(plain(found.group()), found.start(), found.end()) for found in _TOKEN.finditer(text)]


@dataclass(frozen=True, slots=True)
class _Phrase:
    group: str
    words: tuple[str, ...]
    is_weak: bool


class PhraseTable:
    """Phrases by group, prepared for matching."""

    def __init__(self, groups: Mapping[str, Iterable[str]]) -> None:
        """Prepare the phrases of each group; see the head of `prompts/request_words.toml` for their form."""
        self._spaceless: list[tuple[str, str]] = []
        self._by_first: dict[str, list[_Phrase]] = defaultdict(list)
        self._words: set[str] = set()
        self._stems: set[str] = set()
        for group, phrases in groups.items():
            for phrase in phrases:
                self._add(group, phrase)
        self._near: dict[str, list[str]] = defaultdict(list)
        for word in sorted(self._words | self._stems):
            if len(word) >= _SHORTEST_CORRECTED:
                for shorter in _without_one(word):
                    self._near[shorter].append(word)

    def _add(self, group: str, phrase: str) -> None:
        is_weak = phrase.endswith(_WEAK)
        phrase = unicodedata.normalize("NFC", phrase.removesuffix(_WEAK))
        if _SPACELESS.search(phrase):
            self._spaceless.append((group, phrase.casefold()))
            return
        for spelling in dict.fromkeys((phrase, phrase.casefold().translate(_UMLAUTS))):
            words = tuple(_pieces(spelling))
            for word in words:
                if word.endswith(_STEM) and word != _ANY:
                    self._stems.add(word.removesuffix(_STEM))
                elif word != _ANY:
                    self._words.add(word)
            self._by_first[words[0]].append(_Phrase(group, words, is_weak))

    def matches(self, text: str) -> list[PhraseMatch]:
        """Return the phrases found in a text, by position; of those at the same position, the longest first."""
        found = [
            PhraseMatch(group, at.start(), at.end(), is_weak=False)
            # Each has a letter beyond ASCII.
            for group, phrase in (() if text.isascii() else self._spaceless)
            for at in re.finditer(re.escape(phrase), text, re.IGNORECASE)
        ]
        words = [token._replace(word=self._corrected(token.word)) for token in tokens(text)]
        found += [
            PhraseMatch(phrase.group, token.begin, end, phrase.is_weak)
            for number, token in enumerate(words)
            for phrase in self._beginning_with(token.word)
            if (end := _end_of(phrase.words, words, number))
        ]
        return sorted(found, key=lambda match: (match.begin, -match.end))

    def _beginning_with(self, word: str) -> Iterator[_Phrase]:
        yield from self._by_first.get(word, ())
        for length in range(2, len(word) + 1):
            yield from self._by_first.get(word[:length] + _STEM, ())

    def _knows(self, word: str) -> bool:
        return word in self._words or word in self._stems

    def _corrected(self, word: str) -> str:
        """Return a known word that differs by one typing error; the word itself if it is known or there is none."""
        if len(word) < _SHORTEST_EXCHANGED or word in self._words or not word.isalpha():
            return word
        if any(word[:length] in self._stems for length in range(2, len(word) + 1)):
            return word
        if len(word) < _SHORTEST_CORRECTED - 1:
            exchanged = (word[:n] + word[n + 1] + word[n] + word[n + 2 :] for n in range(1, len(word) - 1))
            return next((known for known in exchanged if self._knows(known)), word)
        near = {known for shorter in (word, *_without_one(word)) for known in self._near.get(shorter, ())}
        near |= {each for each in _without_one(word) if len(each) >= _SHORTEST_CORRECTED and self._knows(each)}
        return min((known for known in near if _is_one_error(word, known)), default=word)


def _pieces(phrase: str) -> Iterator[str]:
    for piece in phrase.split():
        if piece == _ANY:
            yield _ANY
        else:
            parts = [plain(part) for part in _TOKEN.findall(piece)]
            yield from parts[:-1]
            yield parts[-1] + (_STEM if piece.endswith(_STEM) else "")


def _end_of(phrase: Sequence[str], words: Sequence[Token], first: int) -> int:
    """Return the position after a phrase that begins at a word, or 0 if it does not continue there."""
    number = first
    is_open = False
    for piece in phrase:
        if piece == _ANY:
            is_open = True
            continue
        reach = range(number, min(len(words), number + (_MOST_SKIPPED + 1 if is_open else 1)))
        at = next((each for each in reach if _is_match(piece, words[each].word)), None)
        if at is None:
            return 0
        number, is_open = at + 1, False
    return words[number - 1].end


def _is_match(piece: str, word: str) -> bool:
    return word.startswith(piece[:-1]) if piece.endswith(_STEM) else word == piece


def _without_one(word: str) -> Iterator[str]:
    for number in range(len(word)):
        yield word[:number] + word[number + 1 :]


def _is_one_error(word: str, known: str) -> bool:
    """Return whether two words differ by one changed, missing, additional or exchanged letter."""
    if word == known or abs(len(word) - len(known)) > 1:
        return False
    begin = next((n for n, (one, other) in enumerate(zip(word, known, strict=False)) if one != other), None)
    if begin is None:
        return True
    rest, other = word[begin:], known[begin:]
    if len(rest) == len(other):
        return rest[1:] == other[1:] or (rest[:2] == other[1::-1] and rest[2:] == other[2:])
    return rest[1:] == other if len(rest) > len(other) else rest == other[1:]
