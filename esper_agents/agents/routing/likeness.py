"""How like a request is to the examples that the definitions of the agents give, for and against."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.agents.routing.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.agents.routing.words import Word
    from esper_agents.domain.agent import Agent, Example

# An example that is like the request to this degree or less says nothing: short sentences share that much by chance.
_BY_CHANCE = 0.25
# Pieces of words forgive endings and typing errors, and there are many of them.
_PIECE = 3
_PIECE_WEIGHT = 0.35
_PIECE_MARK = "~"
_LONGEST = 80


@dataclass(frozen=True, slots=True)
class Resemblance:
    """An example of an agent that the request is like.

    Attributes:
        agent: Whose example it is.
        example: The example.
        degree_milli: How like, in thousandths, above what chance gives.
    """

    agent: str
    example: Example
    degree_milli: int


class Likeness:
    """An index of the examples of all agents."""

    def __init__(self, agents: Sequence[Agent], idle: frozenset[str]) -> None:
        """Index the agents.

        Args:
            agents: Everybody who may be given a task.
            idle: Stems that carry nothing.
        """
        self._idle = idle
        self._examples = [(agent.name, example) for agent in agents for example in agent.examples]
        features = [Counter(self._features(words(example.text))) for _, example in self._examples]
        documents = Counter(each for counted in features for each in counted)
        self._idf = {each: math.log((1 + len(features)) / count) for each, count in documents.items()}
        self._postings: dict[str, list[tuple[int, float]]] = {}
        for number, counted in enumerate(features):
            for feature, weight in self._vector(counted).items():
                self._postings.setdefault(feature, []).append((number, weight))

    def examples_like(self, text: Sequence[Word]) -> list[Resemblance]:
        """Return, for each agent, the example for it and the one against it that the words are most like, if any."""
        degrees: dict[int, float] = {}
        for feature, weight in self._vector(Counter(self._features(text[:_LONGEST]))).items():
            for number, other in self._postings.get(feature, ()):
                degrees[number] = degrees.get(number, 0.0) + weight * other
        best: dict[tuple[str, bool], Resemblance] = {}
        for number, degree in sorted(degrees.items(), key=lambda item: (-item[1], item[0])):
            if degree <= _BY_CHANCE:
                break
            agent, example = self._examples[number]
            milli = round(1000 * (degree - _BY_CHANCE) / (1 - _BY_CHANCE))
            best.setdefault((agent, example.is_for), Resemblance(agent, example, milli))
        return list(best.values())

    def _features(self, text: Iterable[Word]) -> Iterator[str]:
        for word in text:
            if word.stem in self._idle:
                continue
            yield word.stem
            framed = f"^{word.folded}$"
            for at in range(len(framed) - _PIECE + 1):
                yield _PIECE_MARK + framed[at : at + _PIECE]

    def _vector(self, counted: Counter[str]) -> dict[str, float]:
        # What no example holds still counts for the length: a request with much else in it is less like any of them.
        unseen = math.log(1 + len(self._idf))
        raw = {
            feature: self._idf.get(feature, unseen) * (_PIECE_WEIGHT if feature.startswith(_PIECE_MARK) else 1.0)
            for feature in counted
        }
        length = math.sqrt(math.fsum(weight * weight for weight in raw.values())) or 1.0
        return {feature: weight / length for feature, weight in raw.items()}
