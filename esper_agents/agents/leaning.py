"""What single words lean towards, learnt from what the definitions of the agents say."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.agents.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.agents.words import Word
    from esper_agents.domain.agent import Agent

# How many remarks of others an agent's own are mixed with: one remark is no habit.
_DOUBT = 30
# One unit of log odds in the thousandths of the router's scale; chosen on prompts that the lexicon had not seen.
_UNIT_MILLI = 2000
_MOST_WORDS = 200
_REFUSAL = re.compile(r"\b(?:not for|do not use|don't use|never use|not use|do not activate)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
_OWNER = re.compile(r"\(([\w:.-]+)\)\s*$")


class Lean(NamedTuple):
    """How far one word of a text leans towards or away from an agent.

    Attributes:
        agent: The agent.
        at: Position of the word.
        weight_milli: How far; below zero away from it.
    """

    agent: str
    at: int
    weight_milli: int


class Leaning:
    """Log odds of words, counted over the remarks that definitions make.

    A remark is a sentence of a description, something an agent handles, an example for it, an example against
    another that names it, and something another declines in its favour.
    """

    def __init__(self, agents: Sequence[Agent], hints: Mapping[str, Mapping[str, int]], idle: frozenset[str]) -> None:
        """Count the words of all remarks.

        Args:
            agents: Everybody who may be given a task.
            hints: By stem, whom a word hints at; counts as one remark, shared among them.
            idle: Stems that carry nothing.
        """
        self._idle = idle
        self._names = sorted(agent.name for agent in agents)
        self._remarks: Counter[str] = Counter()
        self._uses: dict[str, Counter[str]] = {name: Counter() for name in self._names}
        for agent in agents:
            for owner, remark in _remarks(agent):
                if owner in self._uses:
                    self._learn(owner, {word.stem for word in words(remark)}, 1.0)
        for each, hinted in hints.items():
            for name in hinted:
                if name in self._uses:
                    self._learn(name, {each}, 1 / len(hinted))
        self._total: Counter[str] = Counter()
        for uses in self._uses.values():
            self._total.update(uses)
        self._odds: dict[str, list[int]] = {}
        declined = {agent.name: _stems(agent.declines) - _stems(agent.handles) - idle for agent in agents}
        self._declined = {name: stems - _stems([name]) for name, stems in declined.items()}

    @property
    def vocabulary(self) -> frozenset[str]:
        """Every stem that some remark holds."""
        return frozenset(self._total)

    def of(self, text: Sequence[Word]) -> Iterator[Lean]:
        """Yield how far each word leans, once for each word that some remark holds.

        The more of them there are, the less each counts: by the square root of their number.
        """
        first: dict[str, int] = {}
        for at, word in enumerate(text[:_MOST_WORDS]):
            if word.stem in self._total:
                first.setdefault(word.stem, at)
        share = _UNIT_MILLI / math.sqrt(len(first) or 1)
        for each, at in first.items():
            for name, odds in zip(self._names, self._log_odds(each), strict=True):
                yield Lean(name, at, round(odds * share / 1000))

    def declined_by(self, word: Word) -> Iterator[str]:
        """Yield who uses a word only in saying what they do not do."""
        return (name for name, stems in self._declined.items() if word.stem in stems)

    def _learn(self, name: str, stems: set[str], share: float) -> None:
        self._remarks[name] += share  # type: ignore[assignment] - a counter of shares
        for each in stems - self._idle:
            if each != "#":
                self._uses[name][each] += share  # type: ignore[assignment]

    def _log_odds(self, each: str) -> list[int]:
        if each not in self._odds:
            usual = (self._total[each] + 0.5) / (sum(self._remarks.values()) + 1)
            self._odds[each] = [
                round(1000 * math.log((self._uses[name][each] + _DOUBT * usual) / (self._remarks[name] + _DOUBT) / usual))
                for name in self._names
            ]
        return self._odds[each]


def _remarks(agent: Agent) -> Iterator[tuple[str, str]]:
    """Yield who is spoken of, and what is said."""
    for part in _SENTENCE.split(f"{agent.description}\n{agent.domain}"):
        if part and not _REFUSAL.search(part):
            yield agent.name, part
    for handled in agent.handles:
        yield agent.name, handled
    for example in agent.examples:
        yield (agent.name if example.is_for else example.instead), example.text
    for declined in agent.declines:
        if owner := _OWNER.search(declined):
            yield owner[1], declined[: owner.start()]


def _stems(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(word.stem for text in texts for word in words(text))
