"""ESP701: what has to change along with something else did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.companion import CODE, NAME
from esper_agents.review.rule import FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables


class CompanionChangeMissing(FileRule):
    """A change that demands another one, as a skill of the project declares, came without it.

    It is looked for in changes alone: by `esper review --diff REV` and `--staged`. A skill declares demands in the
    front matter of its `SKILL.md`, by globs: `companions: [{when: src/model/*.py, then: docs/model.md, why: ...}]`.

    ## Why it costs
    Some things live in two places: a state function and its registration, an option and its documentation, a layer and
    its entry in a table. Each place alone looks right, so nothing but the habit of the team finds the half change.

    ## When it is right
    The change does not touch what the two places share, such as a comment or a rename inside one of them.

    ## Sources
    Guidelines that coding agents are given for pytorch/pytorch: register new state functions of Dynamo in
    `trace_rules.py` and in both places of `variables/torch.py`.
    """

    code, name = CODE, NAME
    severity, category = Severity.WARNING, Category.COMPANION
    advice = "Change what the skill says has to change along, in the same commit."
    bad = "# src/model/attention.py changed, docs/model.md did not\n"
    good = "# src/model/attention.py changed, and so did docs/model.md\n"

    def look(self, file: FileTables) -> Iterator[RuleMatch]:  # noqa: ARG002 - it takes a change to say anything
        """Yield nothing: one tree says nothing of what changed."""
        return iter(())
