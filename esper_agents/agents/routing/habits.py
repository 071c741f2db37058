"""What single words lean towards, learnt from remarks about agents: log odds, tempered by doubt."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.agents.routing.words import NUMBER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from esper_agents.agents.routing.words import Word

# How many remarks of others an agent's own are mixed with: one remark is no habit.
_DOUBT = 30
_MOST_SHOWN = 3


class Remark(NamedTuple):
    """Words that were said of an agent.

    Attributes:
        agent: Of whom.
        stems: The words.
        share: How much of a remark it is, where several agents share one.
    """

    agent: str
    stems: Collection[str]
    share: float = 1.0


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


class Habits:
    """Log odds of words, counted over remarks."""

    def __init__(self, names: Iterable[str], remarks: Iterable[Remark], unit_milli: int) -> None:
        """Count the words of all remarks.

        Args:
            names: Whom a text may lean towards; what is said of others is passed over.
            remarks: What was said, in an order that does not change: sums of fractions depend on it.
            unit_milli: One unit of log odds in the thousandths of the router's scale.
        """
        self._names = sorted(names)
        self._unit_milli = unit_milli
        place = {name: index for index, name in enumerate(self._names)}
        self._remarks = [0.0] * len(place)
        self._uses: defaultdict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
        for remark in remarks:
            index = place.get(remark.agent)
            if index is not None:
                self._learn(index, remark)
        self._total = math.fsum(self._remarks)
        self._odds: dict[str, list[int]] = {}

    def of(self, text: Sequence[Word]) -> Iterator[Lean]:
        """Yield how far a text leans towards each agent; each word counts once.

        The more known words there are, the less each counts: by the square root of their number.
        """
        first: dict[str, int] = {}
        for at, word in enumerate(text):
            if word.stem in self._uses:
                first.setdefault(word.stem, at)
        if not first:
            return
        share = math.sqrt(len(first) + 1)
        odds = [(self._log_odds_milli(each), at) for each, at in first.items()]
        for index, name in enumerate(self._names):
            leans = [(round(each[index] / share), at) for each, at in odds]
            towards = sorted(((at, milli) for milli, at in leans if milli > 0), key=lambda lean: (-lean[1], lean[0]))
            yield Lean(name, sum(milli for milli, _ in leans), tuple(towards[:_MOST_SHOWN]))

    def _learn(self, index: int, remark: Remark) -> None:
        self._remarks[index] += remark.share
        for each in remark.stems:
            if (len(each) > 1 or not each.isascii()) and not each.startswith(NUMBER):
                self._uses[each][index] += remark.share

    def _log_odds_milli(self, each: str) -> list[int]:
        known = self._odds.get(each)
        if known is None:
            uses = self._uses[each]
            usual = (math.fsum(uses.values()) + 0.5) / (self._total + 1)
            known = self._odds[each] = [
                round(self._unit_milli * math.log((uses.get(index, 0.0) + _DOUBT * usual) / (said + _DOUBT) / usual))
                for index, said in enumerate(self._remarks)
            ]
        return known
