"""Rules that look at what the review itself did in a file, when all other rules have spoken."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from esper_agents.review.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.suppress import SuppressionUsage
    from esper_agents.review.tables import FileTables


class FinalRule(Rule):
    """A rule that is asked last, and told what the comments of the file silenced."""

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:  # noqa: ARG002 - it speaks in `close`
        """Yield nothing: it speaks when the others have."""
        return iter(())

    @abstractmethod
    def close(self, file: FileTables, silence: SuppressionUsage) -> Iterator[RuleMatch]:
        """Yield where the pattern stands in a file.

        Args:
            file: The tables of the file.
            silence: What its comments silenced.
        """
