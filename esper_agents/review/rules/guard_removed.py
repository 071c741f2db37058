"""ESP702: a change removes a guard from code that stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import FileRule
from esper_agents.review.rule_codes import GUARD, GUARD_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables


class GuardRemoved(FileRule):
    """A change removes a guard, such as `detach`, `no_grad`, `eval`, a clamp or an early exit, from code that stays.

    Only changes are checked: by `esper review --diff REV` and `--staged`, and by a task about a change. A guard that
    moved within the changed files, or that an equivalent one replaced (`clip` for `clamp`, `inference_mode` for
    `no_grad`), is not reported; nor is one that was deleted together with the code that it protected. The severity
    depends on the guard. Arguments are guards, too: `keepdim`, `device`, `dtype`, `ignore_index` and `reduction`.

    ## Why it costs
    The new code is valid and often passes the tests. Without `detach` memory grows for hours before it ends the run;
    without `eval()` the reported accuracy is that of a network with dropout; without a clamp the first extreme batch
    makes the loss NaN. A review of the new file alone cannot see what is no longer in it.

    ## When it is right
    The guard protected against something that cannot occur any more, and a test shows it.

    ## Sources
    https://docs.pytorch.org/docs/stable/notes/faq.html (memory and history across the training loop),
    https://docs.pytorch.org/docs/stable/notes/amp_examples.html (`unscale_` before clipping),
    https://docs.pytorch.org/docs/stable/generated/torch.load.html (`weights_only`).
    """

    code, name = GUARD, GUARD_NAME
    severity, category = Severity.WARNING, Category.COMPANION
    advice = "Restore the guard, or show by a test that it is not needed."
    bad = "# before: losses.append(loss.detach())\nlosses.append(loss)\n"
    good = "# before: losses.append(loss.detach())\nlosses.append(loss.item())\n"

    def look(self, file: FileTables) -> Iterator[RuleMatch]:  # noqa: ARG002 - it takes a change to say anything
        """Yield nothing: one tree does not tell what a change removed."""
        return iter(())
