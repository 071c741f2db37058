"""A call with its arguments, and the place where it stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.review.model.events import Frame
    from esper_agents.review.model.ir import SourcePosition
    from esper_agents.review.model.values import Value


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """Arguments of a call, and where it stands.

    Attributes:
        frame: The activation that calls.
        at: The position.
        args: Positional arguments; of a library's method, the receiver first.
        keywords: Keyword arguments.
        text: The callee as written.
        rest: Element of unpacked arguments of unknown number; None without such.
    """

    frame: Frame
    at: SourcePosition
    args: Sequence[Value] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)
    text: str = ""
    rest: Value | None = None

    @property
    def values(self) -> tuple[Value, ...]:
        """All arguments."""
        return (*self.args, *self.keywords.values())

    def given(self, args: Sequence[Value], keywords: Mapping[str, Value] | None = None, text: str = "") -> CallSite:
        """Return the same place with other arguments."""
        return replace(self, args=args, keywords={} if keywords is None else keywords, text=text or self.text)

    def argument(self, position: int, name: str) -> Value | None:
        """Return an argument by position or keyword; None if it is not given."""
        return self.args[position] if position < len(self.args) else self.keywords.get(name)
