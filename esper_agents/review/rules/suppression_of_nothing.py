"""ESP002: a comment that silences a rule which says nothing there, or which does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.closing import FinalRule
from esper_agents.review.rule import RuleMatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.suppress import Suppression, SuppressionUsage
    from esper_agents.review.tables import FileTables


class SuppressionOfNothing(FinalRule):
    """An `# esper: ignore[...]` comment for a rule that finds nothing there, or for a code that no rule has.

    ## Why it costs
    A comment that outlives its claim hides the next one, which may be a real mistake. A mistyped code hides nothing,
    and whoever wrote it thinks that it does.

    ## When it is right
    The same file is reviewed with several versions of the rules, and only some of them find it. Rules that did not
    run, because they were not chosen or do not run in tests, are not counted as silent.

    ## Sources
    esper-agents: `# esper: ignore[ESP305] the value steers the loop`.
    """

    code, name = "ESP002", "suppression-of-nothing"
    severity, category = Severity.SUGGESTION, Category.CORRECTNESS
    bad = "total = 0  # esper: ignore[ESP305] the value steers the loop\n"
    good = "import torch\ntorch.autograd.set_detect_anomaly(True)  # esper: ignore[ESP404] a script for debugging\n"

    def close(self, file: FileTables, silence: SuppressionUsage) -> Iterator[RuleMatch]:
        """Yield the comments of a file that silence nothing."""
        for suppression in file.suppressions:
            if not suppression.counts:
                continue
            if unknown := silence.unknown(suppression):
                yield _hit(
                    suppression,
                    f"no rule has the code {', '.join(unknown)}, so this silences nothing",
                    "correct the code: `esper rule` lists all",
                )
            if idle := silence.idle(suppression):
                said = (
                    f"{', '.join(idle)} finds nothing here"
                    if len(idle) == 1
                    else f"{', '.join(idle)} find nothing here"
                )
                yield _hit(suppression, f"{said}, so this comment only hides what comes later", "remove it")


def _hit(suppression: Suppression, message: str, remedy: str) -> RuleMatch:
    return RuleMatch(
        line=suppression.comment_line,
        column=suppression.column,
        end_line=suppression.comment_line,
        message=message,
        remedy=remedy,
        confidence=Confidence.HIGH,
        basis="seen in the review",
    )
