"""Companion changes: declared globs of files that must change together, checked against a diff."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

CODE = "ESP701"
NAME = "companion-change-missing"
_LONGEST = 200
_MOST_PARTS = 24


@dataclass(frozen=True, slots=True)
class CompanionRule:
    """Rule that one change requires another.

    Attributes:
        when: Globs of paths; a change of a matching path triggers the rule. `*` stays within a folder, `**` does not.
        then: Globs of paths; a change of a matching path satisfies the rule.
        why: Consequence of a missing change, for readers.
        declared: Place of the declaration, such as a path.
    """

    when: tuple[str, ...]
    then: tuple[str, ...]
    why: str
    declared: str = ""

    def __post_init__(self) -> None:
        """Reject globs that are not valid within a project.

        Raises:
            UsageError: A side is empty, or a glob is empty, absolute, too long, or leaves the project.
        """
        if not self.when or not self.then:
            raise UsageError(
                f"a companion change lacks {'then' if self.when else 'when'!r}", remedy="name globs on both sides"
            )
        for glob in (*self.when, *self.then):
            parts = glob.split("/")
            if not glob or len(glob) > _LONGEST or len(parts) > _MOST_PARTS or parts[0] == "" or ".." in parts:
                raise UsageError(
                    f"{glob[:_LONGEST]!r} is not a valid glob for a companion change",
                    remedy="write a path in the project with `*`, `?` or `**` in it",
                )


def missing_companion_changes(
    companions: Iterable[CompanionRule], paths: Collection[str], texts: Mapping[str, str] | None = None
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each companion rule that a change triggers and does not satisfy.

    Args:
        companions: The rules.
        paths: Every path that differs: added, changed or deleted.
        texts: Sources by path, for the excerpt of a diagnostic.
    """
    found = []
    for companion in companions:
        changed = sorted(path for path in paths if matches(path, companion.when))
        if changed and not any(matches(path, companion.then) for path in paths):
            found.append(_claim(companion, changed, texts or {}))
    return tuple(found)


def _claim(companion: CompanionRule, changed: list[str], texts: Mapping[str, str]) -> Diagnostic:
    # Prefer a file that was read: its source can be shown.
    path = next((each for each in changed if each in texts), changed[0])
    others = f" and {len(changed) - 1} more like it" if len(changed) > 1 else ""
    wanted = " or ".join(f"`{each}`" for each in companion.then)
    why = " ".join(companion.why.split())
    return Diagnostic(
        rule=CODE,
        name=NAME,
        severity=Severity.WARNING,
        category=Category.COMPANION,
        location=Location(path, 1, 1, 1),
        message=f"`{path}`{others} changed, and nothing that matches {wanted} did",
        remedy=f"change {wanted} as well" + (f": {why}" if why else ""),
        confidence=Confidence.HIGH,
        basis=f"declared in {companion.declared}" if companion.declared else "declared by a skill",
        excerpt=texts.get(path, "").partition("\n")[0],
        fingerprint=fingerprint(CODE, path, "\n".join((*companion.when, "", *companion.then)), 0),
    )


def matches(path: str, globs: Iterable[str]) -> bool:
    """Return whether a path matches one of some globs. Case matters, as in git."""
    return any(_matches(tuple(path.split("/")), tuple(glob.split("/"))) for glob in globs)


@lru_cache(maxsize=4096)
def _matches(parts: tuple[str, ...], globs: tuple[str, ...]) -> bool:
    """Return whether folders and name match; every position is visited once, so that no glob takes long."""
    reached = {0}
    for glob in globs:
        if glob == "**":
            reached = set(range(min(reached, default=len(parts)), len(parts) + 1)) if reached else set()
        else:
            reached = {place + 1 for place in reached if place < len(parts) and fnmatchcase(parts[place], glob)}
    return len(parts) in reached or (globs[-1] == "**" and bool(reached))
