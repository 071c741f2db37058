"""Reviews small sources and tells where a rule found something."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from esper_agents.review.engine import review_sources

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.review.engine import ReviewReport


@pytest.fixture(scope="session")
def found() -> Callable[..., list[str]]:
    """Return a function from a rule and sources to the excerpts it points at, in order."""

    def look(rule: str, source: str | dict[str, str], **more: str) -> list[str]:
        return [claim.excerpt.strip() for claim in reviewed(source, rule, **more).claims]

    return look


def reviewed(source: str | dict[str, str], rule: str | None = None) -> ReviewReport:
    files = {"train.py": source} if isinstance(source, str) else source
    report = review_sources(
        {path: dedent(text) for path, text in files.items()}, rules=None if rule is None else [rule]
    )
    assert not report.unreadable
    return report
