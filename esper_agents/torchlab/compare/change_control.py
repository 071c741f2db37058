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
    """The project as it was at a revision.

    Attributes:
        root: Where its files lie.
        commit: Full object id.
        is_target_changed: Whether the target's own file differs from it.
        others: Other files that differ.
    """

    root: Path
    commit: str
    is_target_changed: bool
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeControl:
    """How a change could be taken back, and what else changed with it.

    Attributes:
        base: The revision that the baseline was taken from, where it was.
        flag: The feature flag that turns the candidate off.
    """

    base: BaseRevision | None = None
    flag: str = ""

    def described(self, seed: int) -> JsonObject:
        """Return it as reports hold it.

        Args:
            seed: What every random choice of the comparison follows from.
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
