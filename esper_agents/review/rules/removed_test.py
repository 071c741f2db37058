"""ESP703: a change deletes or disables a test, or removes its assertions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import FileRule
from esper_agents.review.rule_codes import TEST, TEST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables


class RemovedTest(FileRule):
    """A change deletes a test, disables it, or removes assertions from it.

    Only changes are checked: by `esper review --diff REV` and `--staged`, and by a task about a change. A test that
    moved to another changed file under the same name is not reported.

    ## Why it costs
    The remaining tests pass, and what the test protected can break unnoticed.

    ## When it is right
    The behaviour was removed on purpose, or another test covers it.

    ## Sources
    https://docs.pytest.org/en/stable/how-to/skipping.html (skip and xfail).
    """

    code, name = TEST, TEST_NAME
    severity, category = Severity.WARNING, Category.COMPANION
    advice = "Restore the test, or say which test covers what it checked."
    bad = "# before: def test_loss_is_finite(): ...\n"
    good = "def test_loss_is_finite(): ...\n"

    def look(self, file: FileTables) -> Iterator[RuleMatch]:  # noqa: ARG002 - it takes a change to say anything
        """Yield nothing: one tree does not tell what a change removed."""
        return iter(())
