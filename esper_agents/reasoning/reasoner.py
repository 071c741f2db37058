"""Interface of a reasoner: decide the next action from the turns of a frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from esper_agents.domain.agent_action import Move
    from esper_agents.domain.budget import Amount
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Brief, Turn

# Turns in a row of a model in which nothing could be carried out; then its frame ends.
MOST_FRUITLESS = 12
# Member of a model's record: why only the well-formed parts of its conclusion are kept.
SALVAGED = "salvaged"
# Receives streamed model text and notices for display; they are never stored.
Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision of a reasoner.

    Attributes:
        move: Next action.
        record: Data for `Turn.record`, such as a model's message. A reasoner with costs reports them
            as `spent`: `{"tokens": 1200, "money": 3400}`, money in millionths of a US dollar. One that produced only
            text and no action sets `"is_talk": True`.
    """

    move: Move
    record: JsonObject = field(default_factory=dict)


class Reasoner(Protocol):
    """Decides the actions of one frame. The loop may discard it at any time and build another from the same turns."""

    async def next_move(self, turns: Sequence[Turn], say: Say) -> Decision:
        """Return the next action after the given turns.

        Raises:
            DriftError: The turns differ from those that this reasoner would decide.
            ReasonerError: The reasoner cannot decide.
        """


@runtime_checkable
class CostAwareReasoner(Protocol):
    """Reasoner that knows the minimum usage of its next action and limits it to the remaining budget."""

    def within(self, turns: Sequence[Turn], left: Sequence[Amount]) -> Amount | None:
        """Limit the next action to the remaining budget; return the minimum usage that exceeds it, or None."""


@dataclass(frozen=True, slots=True)
class ReasonerSource:
    """Source of reasoners for an agent.

    Attributes:
        kind: `playbook`, `claude`, or `unattended` if no reasoner is available.
        sha256: Digest of the deciding code, such as a playbook's source; empty if there is none locally.
        provider: Distribution and version of its origin.
        build: Creates a reasoner for a frame.
        source: Bytes of the digested code; empty if there is none locally.
        rebuild: Creates `build` from the bytes of another version; None if that is not possible.
    """

    kind: str
    sha256: str
    provider: str
    build: Callable[[Brief], Reasoner]
    source: bytes = b""
    rebuild: Callable[[bytes], Callable[[Brief], Reasoner]] | None = None
