"""Review both sides of a change and keep the diagnostics it introduced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.review.catalogue import catalogue, select
from esper_agents.review.companion import CODE, missing_companion_changes
from esper_agents.review.diff import TreeSnapshot, introduced_by_change
from esper_agents.review.engine import review_read
from esper_agents.review.source import ReviewSource

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path
    from types import ModuleType

    from esper_agents.domain.finding import Category
    from esper_agents.review.companion import CompanionRule
    from esper_agents.review.report import ReviewReport
    from esper_agents.review.source import Unreadable


@dataclass(frozen=True, slots=True)
class DiffReview:
    """The review of a change.

    Attributes:
        report: The review of the new tree, with the claims alone that the change brought, and of what could not be
            read what changed, or could be read before.
        earlier: How many claims of the new tree stood in the old one.
    """

    report: ReviewReport
    earlier: int


def review_change(
    root: Path,
    before: Sequence[ReviewSource | Unreadable],
    after: Sequence[ReviewSource | Unreadable],
    *,
    paths: Collection[str] = (),
    companions: Sequence[CompanionRule] = (),
    categories: Collection[Category] | None = None,
    rules: Collection[str] | None = None,
    extra: Sequence[ModuleType] = (),
) -> DiffReview:
    """Review what a change brought. Runs none of the code.

    Args:
        root: The project's folder, for its settings.
        before: The sources of the old tree, all that belong together.
        after: The sources of the new tree, likewise.
        paths: Every path that differs, whatever it holds.
        companions: Changes that demand others; held against `paths`.
        categories: Run only the rules of these; None runs all.
        rules: Run only these, by code or name; None runs all.
        extra: Modules with further rules.

    Raises:
        NotFoundError: A rule that does not exist.
    """
    chosen = {each.code for each in select(catalogue(extra), categories=categories, names=rules)}
    old = review_read(before, root=root, categories=categories, rules=rules, extra=extra)
    new = review_read(after, root=root, categories=categories, rules=rules, extra=extra)
    found = introduced_by_change(TreeSnapshot(_texts(before), old.claims), TreeSnapshot(_texts(after), new.claims))
    missing = missing_companion_changes(companions, paths, _texts(after)) if CODE in chosen else ()
    claims = sorted((*found, *missing), key=lambda each: (each.location.path, each.location.line, each.rule))
    unreadable = tuple(each for each in new.unreadable if each not in old.unreadable or each.path in paths)
    return DiffReview(replace(new, claims=tuple(claims), unreadable=unreadable), len(new.claims) - len(found))


def _texts(sources: Sequence[ReviewSource | Unreadable]) -> dict[str, str]:
    return {each.record.path: _as_in_file(each) for each in sources if isinstance(each, ReviewSource)}


def _as_in_file(source: ReviewSource) -> str:
    """Return a source with each line where it stands in its file; of a notebook the code alone."""
    if source.notebook is None:
        return source.text
    placed: dict[int, str] = {}
    for number, line in enumerate(source.text.split("\n"), 1):
        place = source.notebook.line(number)
        placed[place] = f"{placed[place]} {line}" if place in placed else line
    return "\n".join(placed.get(number, "") for number in range(1, max(placed) + 1))
