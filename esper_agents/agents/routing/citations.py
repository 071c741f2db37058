"""Words of a request that decided for a label, as they appear in the request."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from esper_agents.agents.routing.features import features_of_word
from esper_agents.agents.routing.passages import Kind
from esper_agents.agents.routing.weights import IDF_UNIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from esper_agents.agents.routing.features import Stretch, Word
    from esper_agents.agents.routing.weights import FeatureRow

_MOST_CITED = 4
_LONGEST_PHRASE = 3
_LONGEST_CITATION = 60
# Words with less than this share of the strongest word are not cited.
_LEAST_SHARE = 0.3
# Words of more than one in 20 requests are cited only if there are no others.
_COMMON_IDF = 4 * IDF_UNIT
_CITED_KINDS = frozenset({Kind.PROSE, Kind.EXCEPTION, Kind.CODE, Kind.PATH})


class Citations:
    """Contribution of every word of a request to every label."""

    def __init__(self, stretches: Sequence[Stretch], rows: Mapping[str, FeatureRow], labels: Sequence[str]) -> None:
        """Collect the features of each word: its own, its n-grams, and the pairs that it belongs to, at half weight.

        Args:
            stretches: Passages of the request.
            rows: Weights of its known features.
            labels: Labels, in the order of the weights.
        """
        self._rows = rows
        self._places = {label: place for place, label in enumerate(labels)}
        self._stretches = [stretch for stretch in stretches if stretch.passage.kind in _CITED_KINDS]

    @cached_property
    def _parts(self) -> list[list[list[tuple[int, Sequence[int]]]]]:
        """Weight and row of each feature, by passage and position."""
        return [
            [self._parts_of(stretch, position) for position in range(len(stretch.words))] for stretch in self._stretches
        ]

    def _parts_of(self, stretch: Stretch, position: int) -> list[tuple[int, Sequence[int]]]:
        sign = -1 if position in stretch.denied else 1
        found = ((weight, self._rows.get(name)) for name, weight in features_of_word(stretch, position))
        return [(sign * weight, row.by_label) for weight, row in found if row is not None]

    def for_label(self, label: str, *, other: str = "") -> list[str]:
        """Return the phrases that contribute most to a label, best first.

        Args:
            label: The label.
            other: If given, phrases that distinguish the label from this one.
        """
        scored = [
            (stretch, [self._contribution(parts, label, other) for parts in by_position])
            for stretch, by_position in zip(self._stretches, self._parts, strict=True)
        ]
        distinctive = [
            (
                stretch,
                [0 if self._is_common(word) else value for word, value in zip(stretch.words, values, strict=True)],
            )
            for stretch, values in scored
        ]
        return _phrases(distinctive) or _phrases(scored)

    def _contribution(self, parts: Sequence[tuple[int, Sequence[int]]], label: str, other: str) -> int:
        place = self._places[label]
        total = sum(weight * row[place] for weight, row in parts)
        if other:
            other_place = self._places[other]
            total -= sum(weight * row[other_place] for weight, row in parts)
        return total

    def _is_common(self, word: Word) -> bool:
        """Return whether a word is part of so many requests, or so short, that it explains nothing."""
        row = self._rows.get(f"w:{word.folded}")
        return (len(word.folded) == 1 and word.folded.isascii()) or (row is not None and row.idf < _COMMON_IDF)

    def of_words(self, is_cited: Callable[[str], bool]) -> list[str]:
        """Return the phrases of the words for which a function of the folded word is true, in order."""
        marked = [(stretch, [int(is_cited(word.folded)) for word in stretch.words]) for stretch in self._stretches]
        return _phrases(marked)


def _phrases(scored: Sequence[tuple[Stretch, list[int]]]) -> list[str]:
    top = max((value for _, values in scored for value in values), default=0)
    if top <= 0:
        return []
    found = [phrase for stretch, values in scored for phrase in _runs(stretch, values, top * _LEAST_SHARE)]
    cited: list[str] = []
    for _, text in sorted(found, key=lambda phrase: -phrase[0]):
        if text and not any(text in longer for longer in cited):
            cited.append(text)
    return cited[:_MOST_CITED]


def _runs(stretch: Stretch, values: Sequence[int], least: float) -> Iterator[tuple[int, str]]:
    """Yield neighbouring words that all contribute, with the sum of their contributions."""
    run: list[int] = []
    for position in range(len(values) + 1):
        is_cited = position < len(values) and values[position] >= least
        if run and (not is_cited or len(run) == _LONGEST_PHRASE or not _are_joined(stretch, run[-1], position)):
            yield sum(values[place] for place in run), _cited(stretch, run)
            run = []
        if is_cited:
            run.append(position)


def _are_joined(stretch: Stretch, first: int, second: int) -> bool:
    between = stretch.passage.text[stretch.words[first].end : stretch.words[second].start]
    return len(between.strip()) <= 1 and "\n" not in between and len(between) < 3  # noqa: PLR2004


def _cited(stretch: Stretch, run: Sequence[int]) -> str:
    return printable(stretch.passage.text[stretch.words[run[0]].start : stretch.words[run[-1]].end])


def printable(text: str) -> str:
    """Return a text as one line without control characters, at most 60 characters long."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= _LONGEST_CITATION else line[: _LONGEST_CITATION - 1] + "…"
