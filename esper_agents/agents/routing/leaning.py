"""What the definitions of the agents say: the remarks to learn words from, and the words that agents decline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.agents.routing.habits import Habits, Remark
from esper_agents.agents.routing.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.agents.routing.habits import Lean
    from esper_agents.agents.routing.words import Word
    from esper_agents.domain.agent import Agent

# Chosen on prompts that the lexicon had not seen.
_UNIT_MILLI = 1400
_REFUSAL = re.compile(r"\b(?:not for|do not use|don't use|never use|not use|do not activate)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
_OWNER = re.compile(r"\(([\w:.-]+)\)\s*$")


class Leaning:
    """How words lean, counted over the remarks that definitions make.

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
        names = sorted(agent.name for agent in agents)
        self._habits = Habits(names, _all_remarks(agents, hints, idle), _UNIT_MILLI)
        declined = {agent.name: [text for _, text in _declined(agent)] for agent in agents}
        handled = {agent.name: agent.handles for agent in agents}
        self._declined = {name: _stems(declined[name]) - _stems(handled[name]) - idle for name in names}

    def of(self, text: Sequence[Word]) -> Iterator[Lean]:
        """Yield how far a text leans towards each agent."""
        return self._habits.of(text)

    def declined_by(self, word: Word) -> Iterator[str]:
        """Yield who uses a word only in saying what they do not do."""
        return (name for name, stems in self._declined.items() if word.stem in stems)


def _all_remarks(
    agents: Sequence[Agent], hints: Mapping[str, frozenset[str]], idle: frozenset[str]
) -> Iterator[Remark]:
    ours = {agent.name for agent in agents}
    for agent in agents:
        for owner, remark in _remarks(agent):
            yield Remark(owner, _stems([remark]) - idle)
    for each, hinted in sorted(hints.items()):
        for name in sorted(hinted & ours):
            yield Remark(name, () if each in idle else (each,), 1 / len(hinted))


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
