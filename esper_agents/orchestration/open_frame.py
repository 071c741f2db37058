"""State of one frame or consult, derived from its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esper_agents.domain.agent_action import Conclude, Consult
from esper_agents.domain.frame import Turn
from esper_agents.domain.handoff import ConsultAnswer
from esper_agents.domain.reasoner_names import PLAYBOOK
from esper_agents.orchestration.open_turn import OpenTurn

if TYPE_CHECKING:
    from esper_agents.domain.ledger import FrameConcluded, FrameOpened, TaskHandedOff


@dataclass(slots=True)
class FrameState:
    """Activation of an agent, by a handoff or a consult.

    Attributes:
        number: Frame number, from 1 in order of opening.
        opened: Event that opened it.
        turns: Turns in order; only the last may be open.
        handed_off: Handoff that ended it, if any.
        concluded: Verdict that ended it, if any.
        concluded_at: Time of the conclusion.
    """

    number: int
    opened: FrameOpened
    turns: list[OpenTurn] = field(default_factory=list)
    handed_off: TaskHandedOff | None = None
    concluded: FrameConcluded | None = None
    concluded_at: str = ""
    _settled: list[Turn] = field(default_factory=list, repr=False)

    @property
    def is_closed(self) -> bool:
        """Whether the frame has ended."""
        return self.handed_off is not None or self.concluded is not None

    @property
    def next_step(self) -> int:
        """Number of the turn in progress, or of the next one."""
        last = self.turns[-1] if self.turns else None
        if last is None:
            return 1
        return last.step + (last.moved is not None and last.result is not None)

    @property
    def is_waiting(self) -> bool:
        """Whether only an answer of a user can continue it."""
        return bool(self.turns) and self.turns[-1].is_waiting

    @property
    def floor(self) -> FrameState | None:
        """Guardrail frame of this frame: see `guardrail.guardrail_question`."""
        return self.turns[0].children[0] if self.is_floored and self.turns[0].children else None

    @property
    def is_floored(self) -> bool:
        """Whether its first action was the consult of its guardrail."""
        first = self.turns[0].moved.move if self.turns and self.turns[0].moved else None
        return isinstance(first, Consult) and first.reasoner == PLAYBOOK

    @property
    def settled(self) -> tuple[Turn, ...]:
        """Turns with known results, as passed to the reasoner."""
        # Completed turns do not change, and only the last turn may be open.
        for turn in self.turns[len(self._settled) :]:
            if turn.moved is not None and turn.result is not None:
                self._settled.append(Turn(turn.moved.move, turn.moved.record, turn.result))
        return tuple(self._settled)

    @property
    def answer(self) -> ConsultAnswer | None:
        """Answer of a consult; None until it has answered."""
        if self.concluded is None:
            return None
        final = self.turns[-1].moved if self.turns else None
        move = final.move if final and isinstance(final.move, Conclude) else Conclude("")
        reports = [call.report for turn in self.turns for call in turn.calls.values() if call.report]
        found = [finding for report in reports for finding in report.findings] + list(self.concluded.findings)
        return ConsultAnswer(
            self.opened.agent.name,
            self.concluded.problem or move.summary,
            tuple(dict.fromkeys(each.claim.fingerprint for each in found)),
            tuple(report.evidence.id for report in reports),
            question=self.opened.question,
            refuted=tuple(dict.fromkeys(mark for report in reports for mark in report.evidence.refutes)),
            gaps=move.gaps,
            problem=self.concluded.problem,
            budget_left=self.opened.budget_left,
            reported=tuple({each.claim.fingerprint: each for each in reversed(found)}.values())[::-1],
        )

    def turn(self, step: int) -> OpenTurn:
        """Return a turn, created at its first event."""
        while len(self.turns) < step:
            self.turns.append(OpenTurn(len(self.turns) + 1))
        return self.turns[step - 1]
