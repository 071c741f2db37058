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

# Takes text as a model writes it, and notices, for people who watch; it is never stored.
Say: TypeAlias = Callable[[str], None]


class ProgramNotice(str):
    """A line of the program's own among what a model writes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What a reasoner decided.

    Attributes:
        move: The next move.
        record: What it wants back as `Turn.record`, such as a model's own message. A reasoner that costs something
            says so under `spent`: `{"tokens": 1200, "money": 3400}`, money in millionths of a US dollar. One that made
            no move, but only talked, says `"is_talk": True`.
    """

    move: Move
    record: JsonObject = field(default_factory=dict)


class Reasoner(Protocol):
    """Decides the moves of one frame. The loop may drop it at any time and build another from the same turns."""

    async def next_move(self, turns: Sequence[Turn], say: Say) -> Decision:
        """Return the next move after the turns so far.

        Raises:
            DriftError: The turns are not those that this reasoner would have made.
            ReasonerError: It cannot decide.
        """


@runtime_checkable
class CostAwareReasoner(Protocol):
    """A reasoner that knows what a move takes before it is asked for one, and keeps it within what is left."""

    def within(self, turns: Sequence[Turn], left: Sequence[Amount]) -> Amount | None:
        """Keep the next move within what is left; return what it takes at least of what is not enough, or None."""


@dataclass(frozen=True, slots=True)
class ReasonerSource:
    """Something that builds reasoners for an agent.

    Attributes:
        kind: `playbook`, `claude`, or `unattended` where nothing can decide.
        sha256: Digest of what decides, such as a playbook's source; empty where nothing local decides.
        provider: Distribution and version it comes from.
        build: Makes a reasoner for a frame.
        source: The bytes that `sha256` is the digest of; empty where nothing local decides.
        rebuild: Makes `build` of the bytes of another version; None where that cannot be done.
    """

    kind: str
    sha256: str
    provider: str
    build: Callable[[Brief], Reasoner]
    source: bytes = b""
    rebuild: Callable[[bytes], Callable[[Brief], Reasoner]] | None = None
