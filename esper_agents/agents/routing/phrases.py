"""Phrases of words, and an index that finds all of them in a text in one pass."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from esper_agents.agents.routing.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.agents.routing.words import Word

T = TypeVar("T")

_GAP = ".."
_MOST_BETWEEN = 4
# A cue counts once, however often it is said; more places only cost time.
_MOST_PLACES = 4
_SIGNS = frozenset(("#", "#x", "#%", "#gb", "#s", "#e"))


class Hit(NamedTuple, Generic[T]):
    """A phrase that stands in a text.

    Attributes:
        positions: Of its words among the words of the text.
        meaning: What the phrase was entered for.
    """

    positions: tuple[int, ...]
    meaning: T


def spelled_out(phrase: str) -> Iterator[tuple[str, ...]]:
    """Yield every sequence of words that a phrase of the lexicon stands for.

    In a phrase, `a/b` is either word, `..` up to four words between, `stem*` any ending, `=word` exactly this form,
    and `#`, `#x`, `#%` are a number, a factor and a share.
    """
    for choice in product(*(part.split("/") for part in phrase.split())):
        yield tuple(element for part in choice for element in _elements(part))


def _elements(part: str) -> list[str]:
    if part == _GAP or part in _SIGNS:
        return [part]
    found = words(part)
    if part.startswith("=") and found:
        return ["=" + word.folded for word in found]
    elements = [word.stem for word in found]
    if part.endswith("*") and found:
        elements[-1] = found[-1].folded + "*"
    return elements


class PhraseIndex(Generic[T]):
    """Finds phrases in a text, whatever their number: looks up each word of the text once."""

    def __init__(self, phrases: Iterable[tuple[str, T]]) -> None:
        """Enter phrases, each with what it stands for."""
        self._by_first: dict[str, list[tuple[tuple[str, ...], T]]] = {}
        vocabulary: set[str] = set()
        for phrase, meaning in phrases:
            vocabulary.update(word.folded for word in words(phrase))
            for elements in spelled_out(phrase):
                if elements:
                    self._by_first.setdefault(elements[0], []).append((elements[1:], meaning))
        self._vocabulary = frozenset(vocabulary)
        later = {element for entered in self._by_first.values() for rest, _ in entered for element in rest}
        self._prefixes = {each[:-1] for each in later.union(self._by_first) if each.endswith("*")}
        self._prefix_lengths = sorted(set(map(len, self._prefixes)))

    def vocabulary(self) -> frozenset[str]:
        """Return every word of every phrase, with its ending; a word of any ending without it."""
        return self._vocabulary

    def find(self, text: Sequence[Word]) -> list[Hit[T]]:
        """Return the phrases that stand in a text; one that lies within a longer one is left out.

        Of each phrase the first four places are found.
        """
        places = self._places(text)
        hits: list[Hit[T]] = []
        for key in places:
            for rest, meaning in self._by_first.get(key, ()):
                if all(element in places or element == _GAP for element in rest):
                    found = (_follow(rest, text, at) for at in sorted(places[key])[:_MOST_PLACES])
                    hits += (Hit(positions, meaning) for positions in found if positions)
        return _outermost(hits)

    def _places(self, text: Sequence[Word]) -> dict[str, list[int]]:
        """Return where each element that a phrase may hold stands in a text."""
        forms: dict[tuple[str, str], list[int]] = {}
        for at, word in enumerate(text):
            forms.setdefault((word.stem, word.folded), []).append(at)
        places: dict[str, list[int]] = {}
        for (stem, folded), where in forms.items():
            places.setdefault(stem, []).extend(where)
            places["=" + folded] = where
            for length in self._prefix_lengths:
                if folded[:length] in self._prefixes:
                    places.setdefault(folded[:length] + "*", []).extend(where)
        return places


def _follow(rest: tuple[str, ...], text: Sequence[Word], at: int) -> tuple[int, ...]:
    """Return where the words of a phrase stand when its first stands at a position; nothing where they do not."""
    positions = [at]
    reach = 1
    for element in rest:
        if element == _GAP:
            reach = _MOST_BETWEEN + 1
            continue
        after = positions[-1] + 1
        found = next((each for each in range(after, min(after + reach, len(text))) if _is(element, text[each])), None)
        if found is None:
            return ()
        positions.append(found)
        reach = 1
    return tuple(positions)


def _is(element: str, word: Word) -> bool:
    if element == word.stem:
        return True
    if element.endswith("*"):
        return word.folded.startswith(element[:-1])
    return element[0] == "=" and element[1:] == word.folded


def _outermost(hits: list[Hit[T]]) -> list[Hit[T]]:
    hits.sort(key=lambda hit: (-len(hit.positions), hit.positions))
    owners: dict[int, set[int]] = {}
    kept: list[Hit[T]] = []
    for number, hit in enumerate(hits):
        longer = set.intersection(*(owners.get(position, set()) for position in hit.positions))
        if any(len(hits[each].positions) > len(hit.positions) for each in longer):
            continue
        kept.append(hit)
        for position in hit.positions:
            owners.setdefault(position, set()).add(number)
    kept.sort(key=lambda hit: hit.positions)
    return kept
