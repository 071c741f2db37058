"""ESP001: a comment that is meant to silence a claim and does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.rule import FileRule, RuleMatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.tables import FileTables


class SuppressionWithoutReason(FileRule):
    """An `# esper: ignore` comment that names no rule or gives no reason, and therefore silences nothing.

    ## Why it costs
    A silenced claim without a reason cannot be judged later, so it still counts; whoever wrote the comment thinks it
    does not.

    ## When it is right
    Never: write the rule's code in brackets and the reason after them.

    ## Sources
    esper-agents: `# esper: ignore[ESP305] the value steers the loop`.
    """

    code, name = "ESP001", "suppression-without-reason"
    severity, category = Severity.SUGGESTION, Category.CORRECTNESS
    bad = "total = 0  # esper: ignore[ESP305]\n"
    good = "total = 0  # esper: ignore[ESP305] the value steers the loop\n"

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the comments that silence nothing."""
        for suppression in file.suppressions:
            if not suppression.counts:
                missing = "gives no reason" if suppression.codes else "names no rule"
                yield RuleMatch(
                    line=suppression.comment_line,
                    column=suppression.column,
                    end_line=suppression.comment_line,
                    message=f"this comment {missing}, so it silences nothing",
                    remedy="write `# esper: ignore[CODE] reason`",
                    confidence=Confidence.HIGH,
                    basis="seen in the comment",
                )
