"""Similarity of requests to the definitions of agents without trained weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import TYPE_CHECKING

from esper_agents.agents.routing.features import features, read_request
from esper_agents.agents.routing.weights import IDF_UNIT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from esper_agents.agents.routing.weights import Weights
    from esper_agents.domain.agent import Agent

# Frequency of a word that no training request contains, as if it were in one of 5,000.
_UNSEEN_IDF = round(IDF_UNIT * (log(5_000) + 1))
# Words of nearly every request say nothing; frequencies below this count as 0.
_COMMON_IDF = 4 * IDF_UNIT
# Score of a request with a similarity: line through two points measured on the bundled agents, each as if unknown.
_SLOPE, _OFFSET = 3.0, -1.1
# Similarity to an exclusion or to an example against counts this much more.
_EXCLUSION = 1.5


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of a definition: normalised features, and the agent that it is for."""

    agent: str
    vector: Mapping[str, float]
    is_for: bool
    instead: str
    text: str


@dataclass(frozen=True, slots=True)
class DefinitionScore:
    """Score of an agent by its definition.

    Attributes:
        score: Comparable with the scores of `Weights`.
        shared: Words of the request that the definition contains.
        against: Text of the definition against the request; empty if none.
    """

    score: float
    shared: frozenset[str]
    against: str


class DefinedAgents:
    """Index of the descriptions, examples and exclusions of agents."""

    def __init__(self, agents: Sequence[Agent], weights: Weights, known: Collection[str]) -> None:
        """Index the agents; nothing is trained.

        Args:
            agents: Agents that the weights do not know.
            weights: Trained weights, for the frequencies of words.
            known: Names of all agents, including those that an exclusion may name.
        """
        self._weights = weights
        self._known = known
        self._texts = [text for agent in agents for text in self._texts_of(agent)]
        self._names = tuple(agent.name for agent in agents)

    def scores(self, request: Mapping[str, int]) -> dict[str, DefinitionScore]:
        """Return the score of each agent, including agents that an example against another one names.

        Args:
            request: Features of the request.
        """
        if not self._texts:
            return {}
        vector = self._vector(request)
        pro: dict[str, tuple[float, _Text]] = {}
        contra: dict[str, tuple[float, _Text]] = {}
        for text in self._texts:
            similarity = _similarity(vector, text.vector)
            side = pro if text.is_for else contra
            if similarity > side.get(text.agent, (0.0,))[0]:
                side[text.agent] = similarity, text
            if text.instead and similarity > pro.get(text.instead, (0.0,))[0]:
                pro[text.instead] = similarity, text
        found = {}
        for name in {*self._names, *pro}:
            degree, best = pro.get(name, (0.0, None))
            against, worst = contra.get(name, (0.0, None))
            shared = frozenset(_words(vector) & _words(best.vector)) if best else frozenset()
            score = _SLOPE * (degree - _EXCLUSION * against) + _OFFSET
            found[name] = DefinitionScore(score, shared, worst.text if worst and against > degree / 2 else "")
        return found

    def _texts_of(self, agent: Agent) -> list[_Text]:
        texts = [(agent.description, True, ""), *((text, True, "") for text in agent.handles)]
        if agent.domain:
            texts.append((agent.domain, True, ""))
        texts += (self._exclusion(text) for text in agent.declines)
        texts += ((example.text, example.is_for, self._resolved(example.instead)) for example in agent.examples)
        return [
            _Text(agent.name, self._vector(features(read_request(text))), is_for, instead, text)
            for text, is_for, instead in texts
        ]

    def _exclusion(self, text: str) -> tuple[str, bool, str]:
        """Return the text of an exclusion and the agent in parentheses after it."""
        subject, _, other = text.rstrip(")").rpartition("(")
        return (subject, False, self._resolved(other)) if subject else (text, False, "")

    def _resolved(self, name: str) -> str:
        """Return the full name of an agent that a definition names; empty if there is none."""
        close = [known for known in self._known if name and known.rpartition(":")[2] == name.rpartition(":")[2]]
        return name if name in self._known else min(close, default="")

    def _vector(self, found: Mapping[str, int]) -> dict[str, float]:
        raw = {}
        for name, weight in found.items():
            prefix, _, word = name.partition(":")
            if prefix not in {"w", "ew", "g"}:
                continue
            row = self._weights.row(name)
            idf = _UNSEEN_IDF if row is None else row.idf
            if idf > _COMMON_IDF:
                raw[f"g:{word}" if prefix == "g" else f"w:{word}"] = weight * (idf - _COMMON_IDF)
        length = sqrt(sum(value * value for value in raw.values())) or 1.0
        return {name: value / length for name, value in raw.items()}


def _similarity(request: Mapping[str, float], text: Mapping[str, float]) -> float:
    """Return the cosine of two texts."""
    return sum(value * text[name] for name, value in request.items() if name in text)


def _words(vector: Mapping[str, float]) -> set[str]:
    return {name[2:] for name in vector if name.startswith("w:")}
