"""Change control of a comparison: one variable at a time, frozen randomness, a rollback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class BaseRevision:
    """Project at a base revision.

    Attributes:
        root: Root of its files.
        commit: Full object id.
        is_target_changed: Whether the target's own file differs from it.
        others: Other differing files.
    """

    root: Path
    commit: str
    is_target_changed: bool
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeControl:
    """Rollback of a change, and its confounding changes.

    Attributes:
        base: Revision of the baseline, if it was taken from one.
        flag: Feature flag that disables the candidate.
    """

    base: BaseRevision | None = None
    flag: str = ""

    def described(self, seed: int) -> JsonObject:
        """Return the change control as stored in reports.

        Args:
            seed: Seed of every random choice of the comparison.
        """
        said = [["frozen", f"seed {seed}; inputs, order and processors follow from it"]]
        if self.base is not None:
            said.append(["variable", self._variable(self.base)])
        said.append(["way back", self._way_back()])
        base = self.base and {
            "commit": self.base.commit,
            "is_target_changed": self.base.is_target_changed,
            "others": list(self.base.others),
        }
        return {"base": base, "flag": self.flag, "said": said}

    def _variable(self, base: BaseRevision) -> str:
        if not base.others:
            return "one: only the target's own file differs" if base.is_target_changed else "none: no file differs"
        named = ", ".join(base.others[:_MOST_NAMED])
        more = f" and {len(base.others) - _MOST_NAMED} more" if len(base.others) > _MOST_NAMED else ""
        return (
            f"more than one: beside the target's file {named}{more} differ, so what is measured is all of them together"
        )

    def _way_back(self) -> str:
        if self.flag:
            return f"turn off {self.flag}"
        if self.base is not None:
            return f"git revert to {self.base.commit[:12]}"
        return "call A again; name a feature flag with --flag, or a revision with --base"
