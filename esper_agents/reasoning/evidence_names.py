"""Short identifiers of evidence in one conversation, such as `e7`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import ToolReport
from esper_agents.domain.handoff import ConsultAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.domain.frame import Brief, Turn

_FULL = re.compile(r"ev_[0-9a-f]{32}")
_SHORT = re.compile(r"(?:ev(?:idence)?[ _#-]*)?[e#]?(\d{1,5})", re.IGNORECASE)
_LEAST_PREFIX, _LIKE = 6, 0.85


class EvidenceNames:
    """Numbers of the evidence in the order in which a conversation shows it; they never change."""

    def __init__(self, brief: Brief) -> None:
        """Number the evidence on record."""
        self._numbers: dict[str, int] = {}
        self._turns = 0
        self._take(each.id for each in brief.evidence)

    def add(self, turns: Iterable[Turn]) -> None:
        """Number the evidence of further turns: of all turns in order, those that are known included."""
        for turn in tuple(turns)[self._turns :]:
            results = turn.result if isinstance(turn.result, tuple) else (turn.result,)
            for result in results:
                if isinstance(result, ToolReport):
                    self._take((result.evidence.id,))
                elif isinstance(result, ConsultAnswer):
                    self._take(result.evidence)
            self._turns += 1

    def _take(self, ids: Iterable[str]) -> None:
        for each in ids:
            self._numbers.setdefault(each, len(self._numbers) + 1)

    def shortened(self, text: str) -> str:
        """Return a text with the short identifier in place of each full one that has a number."""
        return _FULL.sub(lambda found: f"e{self._numbers[found[0]]}" if found[0] in self._numbers else found[0], text)

    def full(self, said: str) -> str:
        """Return the identifier that a model means; the text itself if it means none.

        A full identifier may be cut short or miscopied, as long as only one is meant.
        """
        named = said.strip().strip("`'\"[]()")
        if found := _SHORT.fullmatch(named):
            return next((each for each, number in self._numbers.items() if number == int(found[1])), said)
        if named in self._numbers or not named.startswith("ev_"):
            return named
        begun = [each for each in self._numbers if len(named) >= _LEAST_PREFIX and each.startswith(named)]
        alike = begun or get_close_matches(named, self._numbers, n=2, cutoff=_LIKE)
        return alike[0] if len(alike) == 1 else named
