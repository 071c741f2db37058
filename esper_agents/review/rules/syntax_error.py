"""ESP109: a file that the project's Python cannot parse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.parsing import SYNTAX_ERROR
from esper_agents.review.rule import FileRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables


class SyntaxErrorInFile(FileRule):
    """A file that the project's own Python cannot parse, so that importing it fails and no other rule can read it.

    The project's Python is the lowest version that the nearest `pyproject.toml` allows in `requires-python`, else the
    version in `.python-version`, else the one that runs the review. Syntax that came with a later Python is found as
    far as the parser knows the version of each form.

    ## Why it costs
    `import` raises `SyntaxError`: the job stops where the file is first needed, which may be the last step of a run.

    ## When it is right
    The file is not Python source but a template, or broken on purpose as test data. Rename it, or name other paths.
    Syntax of a Python that is newer than the one that runs the review is not reported if the project does not say that
    it supports an older one: the file is listed as unread, with the version that can read it.

    ## Sources
    The Python language reference; PEP 621 on `requires-python`; documentation of `ast.parse`, on `feature_version`.
    """

    code, name = SYNTAX_ERROR
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = "def train(model:\n    model.train()\n"
    good = "def train(model):\n    model.train()\n"

    def look(self, file: FileTables) -> Iterator[RuleMatch]:  # noqa: ARG002 - a file that has tables parses
        """Yield nothing: the parser reports these files."""
        return iter(())
