"""The page of a rule, from its own docstring and examples."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from esper_agents.review.catalogue import catalogue, find
from esper_agents.review.rule import as_files

if TYPE_CHECKING:
    from esper_agents.review.rule import Example


def explain(code: str) -> str:
    """Return the page of a rule as Markdown: what it finds, why, when the code is right, a bad and a good example.

    Args:
        code: The rule's code or name.

    Raises:
        NotFoundError: No rule has it.
    """
    rule = find(code, catalogue())
    parts = (
        f"# {rule.code} {rule.name}",
        f"*{rule.severity}, {rule.category}*",
        inspect.cleandoc(type(rule).__doc__ or ""),
        "## Bad",
        _blocks(rule.bad),
        "## Good",
        _blocks(rule.good),
    )
    return "\n\n".join(parts) + "\n"


def _blocks(example: Example) -> str:
    files = as_files(example)
    named = len(files) > 1
    return "\n\n".join(
        (f"`{path}`\n\n" if named else "") + f"```python\n{source.rstrip()}\n```" for path, source in files.items()
    )
