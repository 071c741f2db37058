"""What single words lean towards, learnt from what the definitions of the agents say."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.agents.routing.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.agents.routing.words import Word
    from esper_agents.domain.agent import Agent

# How many remarks of others an agent's own are mixed with: one remark is no habit.
_DOUBT = 30
# One unit of log odds in the thousandths of the router's scale; chosen on prompts that the lexicon had not seen.
_UNIT_MILLI = 1400
_MOST_SHOWN = 3
_REFUSAL = re.compile(r"\b(?:not for|do not use|don't use|never use|not use|do not activate)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
_OWNER = re.compile(r"\(([\w:.-]+)\)\s*$")


class Lean(NamedTuple):
    """How far the words of a text lean towards or away from an agent.

    Attributes:
        agent: The agent.
        weight_milli: How far, all words together; below zero away from it.
        towards: Positions of the words that lean most towards it, most first, each with how far.
    """

    agent: str
    weight_milli: int
    towards: tuple[tuple[int, int], ...]


class Leaning:
    """Log odds of words, counted over the remarks that definitions make.

    A remark is a sentence of a description, something an agent handles, an example for it, an example against
    another that names it, and something another declines in its favour.
    """

    def __init__(self, agents: Sequence[Agent], hints: Mapping[str, frozenset[str]], idle: frozenset[str]) -> None:
        """Count the words of all remarks.

        Args:
            agents: Everybody who may be given a task.
            hints: By stem, whom a word hints at; counts as one remark, shared among them.
            idle: Stems that carry nothing.
        """
        self._idle = idle
        self._names = sorted(agent.name for agent in agents)
        self._remarks: defaultdict[str, float] = defaultdict(float)
        self._uses: dict[str, defaultdict[str, float]] = {name: defaultdict(float) for name in self._names}
        for agent in agents:
            for owner, remark in _remarks(agent):
                if owner in self._uses:
                    self._learn(owner, {word.stem for word in words(remark)}, 1.0)
        # Sorted, because sums of fractions depend on their order, and that of a set differs from process to process.
        for each, hinted in sorted(hints.items()):
            for name in sorted(hinted.intersection(self._uses)):
                self._learn(name, {each}, 1 / len(hinted))
        total: defaultdict[str, float] = defaultdict(float)
        for uses in self._uses.values():
            for each, share in uses.items():
                total[each] += share
        remarks = math.fsum(self._remarks.values())
        self._odds = {each: self._log_odds_milli(each, (uses + 0.5) / (remarks + 1)) for each, uses in total.items()}
        declined = {agent.name: [text for _, text in _declined(agent)] for agent in agents}
        handled = {agent.name: agent.handles for agent in agents}
        self._declined = {name: _stems(declined[name]) - _stems(handled[name]) - idle for name in self._names}

    def of(self, text: Sequence[Word]) -> Iterator[Lean]:
        """Yield how far a text leans towards each agent; each word counts once.

        The more known words there are, the less each counts: by the square root of their number.
        """
        first: dict[str, int] = {}
        for at, word in enumerate(text):
            if word.stem in self._odds:
                first.setdefault(word.stem, at)
        share = math.sqrt(len(first) + 1)
        for index, name in enumerate(self._names):
            leans = [(round(self._odds[each][index] / share), at) for each, at in first.items()]
            if leans:
                towards = sorted(
                    ((at, milli) for milli, at in leans if milli > 0), key=lambda lean: (-lean[1], lean[0])
                )
                yield Lean(name, sum(milli for milli, _ in leans), tuple(towards[:_MOST_SHOWN]))

    def declined_by(self, word: Word) -> Iterator[str]:
        """Yield who uses a word only in saying what they do not do."""
        return (name for name, stems in self._declined.items() if word.stem in stems)

    def _learn(self, name: str, stems: set[str], share: float) -> None:
        self._remarks[name] += share
        for each in stems - self._idle:
            if len(each) > 1 or not each.isascii():
                self._uses[name][each] += share

    def _log_odds_milli(self, each: str, usual: float) -> list[int]:
        mixed = _DOUBT * usual
        return [
            round(_UNIT_MILLI * math.log((self._uses[name][each] + mixed) / (self._remarks[name] + _DOUBT) / usual))
            for name in self._names
        ]


def _remarks(agent: Agent) -> Iterator[tuple[str, str]]:
    """Yield who is spoken of, and what is said."""
    for part in _SENTENCE.split(f"{agent.description}\n{agent.domain}"):
        if part and not _REFUSAL.search(part):
            yield agent.name, part
    for handled in agent.handles:
        yield agent.name, handled
    for example in agent.examples:
        yield (agent.name if example.is_for else example.instead), example.text
    yield from _declined(agent)


def _declined(agent: Agent) -> Iterator[tuple[str, str]]:
    """Yield in whose favour an agent declines something, where it says so, and what."""
    for text in agent.declines:
        owner = _OWNER.search(text)
        yield (owner[1], text[: owner.start()]) if owner else ("", text)


def _stems(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(word.stem for text in texts for word in words(text))
