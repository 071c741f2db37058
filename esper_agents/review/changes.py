"""Review both sides of a change and keep the diagnostics it introduced."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from esper_agents.review.catalogue import catalogue, select
from esper_agents.review.change_description import ChangeDescription, describe_change
from esper_agents.review.change_reach import ChangeReach
from esper_agents.review.companion import CODE, missing_companion_changes
from esper_agents.review.diff import TreeSnapshot, compare_snapshots
from esper_agents.review.engine import review_read
from esper_agents.review.removed_guards import removed_guards
from esper_agents.review.source import ReviewSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path
    from types import ModuleType

    from esper_agents.domain.finding import Category, Diagnostic
    from esper_agents.review.companion import CompanionRule
    from esper_agents.review.report import Progress, ReviewReport
    from esper_agents.review.source import Unreadable


@dataclass(frozen=True, slots=True)
class DiffReview:
    """Review of a change.

    Attributes:
        report: Review of the new tree, limited to the diagnostics that the change introduced and to unreadable files
            that changed or were readable before.
        earlier: Number of diagnostics of the new tree that existed in the old one.
        worsened: Introduced diagnostics that the old tree had with a lower severity.
        fixed: Diagnostics of the old tree that the change removed, by a fix or with their code.
        older: Diagnostics of the new tree that are not part of the change.
        description: Edits of meaning that no diagnostic about the change names, and what is only form.
    """

    report: ReviewReport
    earlier: int
    worsened: tuple[Diagnostic, ...] = ()
    fixed: tuple[Diagnostic, ...] = ()
    older: tuple[Diagnostic, ...] = ()
    description: ChangeDescription = field(default_factory=ChangeDescription)


def review_change(  # noqa: PLR0913 - what a review can be limited to
    root: Path,
    before: Sequence[ReviewSource | Unreadable],
    after: Sequence[ReviewSource | Unreadable],
    *,
    paths: Collection[str] = (),
    companions: Sequence[CompanionRule] = (),
    categories: Collection[Category] | None = None,
    rules: Collection[str] | None = None,
    extra: Sequence[ModuleType] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> DiffReview:
    """Review the diagnostics that a change introduced. Runs none of the code.

    Args:
        root: The project's folder, for its settings.
        before: All related sources of the old tree.
        after: All related sources of the new tree.
        paths: Every path that differs, of any file type.
        companions: Rules of companion changes; checked against `paths`.
        categories: Run only the rules of these categories; None runs all.
        rules: Run only these rules, by code or name; None runs all.
        extra: Modules with further rules.
        on_progress: Called before each file of either tree is checked.

    Raises:
        NotFoundError: A named rule does not exist.
    """
    chosen = {each.code for each in select(catalogue(extra), categories=categories, names=rules)}
    old = review_read(before, root=root, categories=categories, rules=rules, extra=extra, on_progress=on_progress)
    new = review_read(after, root=root, categories=categories, rules=rules, extra=extra, on_progress=on_progress)
    compared = compare_snapshots(TreeSnapshot(_texts(before), old.claims), TreeSnapshot(_texts(after), new.claims))
    found = compared.introduced
    missing = missing_companion_changes(companions, paths, _texts(after)) if CODE in chosen else ()
    guards = [
        removed_guard
        for removed_guard in removed_guards(_texts(before), _texts(after), paths)
        if removed_guard.rule in chosen
    ]
    reach = ChangeReach(after)
    claims = sorted(
        (*found, *missing, *reach.of_guards(guards)),
        key=lambda each: (each.location.path, each.location.line, each.rule),
    )
    unreadable = tuple(each for each in new.unreadable if each not in old.unreadable or each.path in paths)
    brought = {id(each) for each in found}
    described = describe_change(_texts(before), _texts(after), paths)
    named = {(guard.location.path, guard.location.line) for guard in guards}
    edits = reach.of_edits([edit for edit in described.edits if (edit.path, edit.line) not in named])
    return DiffReview(
        replace(new, claims=tuple(claims), unreadable=unreadable),
        len(new.claims) - len(found),
        compared.worsened,
        compared.fixed,
        tuple(claim for claim in new.claims if id(claim) not in brought),
        replace(described, edits=edits, named=len(described.edits) - len(edits)),
    )


def _texts(sources: Sequence[ReviewSource | Unreadable]) -> dict[str, str]:
    return {source.record.path: _as_in_file(source) for source in sources if isinstance(source, ReviewSource)}


def _as_in_file(source: ReviewSource) -> str:
    """Return a source with its lines at their positions in the file; for a notebook, only the code."""
    if source.notebook is None:
        return source.text
    placed: dict[int, str] = {}
    for number, line in enumerate(source.text.split("\n"), 1):
        place = source.notebook.line(number)
        placed[place] = f"{placed[place]} {line}" if place in placed else line
    return "\n".join(placed.get(number, "") for number in range(1, max(placed) + 1))
