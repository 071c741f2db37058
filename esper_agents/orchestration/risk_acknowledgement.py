"""Request and record a user's acknowledgement of advice with implementation risk.

The answer is bound to exactly the conclusion that was shown.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.certificates.statement import digest_of_value
from esper_agents.domain.agent_action import Conclude, SupportedClaim
from esper_agents.domain.codec import encode
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import UserQuestion
from esper_agents.domain.risk_acknowledgement import RiskAcknowledgement
from esper_agents.orchestration.permissions import APPROVE, DENY

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.verdict import Verdict
    from esper_agents.orchestration.open_frame import FrameState

_LONGEST_QUOTE = 300


def agreements(frame: FrameState) -> tuple[RiskAcknowledgement, ...]:
    """Return the risk acknowledgements of a frame's conclusion; empty if the user was not asked or has not answered."""
    turn = frame.turns[-1] if frame.turns else None
    if turn is None or turn.moved is None or not isinstance(turn.moved.move, Conclude) or 0 not in turn.calls:
        return ()
    move, asked = turn.moved.move, turn.calls[0]
    if asked.question is None or asked.answer is None or asked.answer.question != asked.question.id:
        return ()
    is_this = asked.question.arguments_sha256 == digest_of_value(_bound(move))
    is_given = is_this and asked.answer.text == APPROVE
    return (RiskAcknowledgement(asked.question.id, asked.answer.by, is_given, move.risks.implementation_risk),)


def assumed_acknowledgement(move: Conclude) -> tuple[RiskAcknowledgement, ...]:
    """Return a hypothetical acknowledgement, to compute what it would change."""
    return (RiskAcknowledgement("", "somebody", is_given=True, implementation_risk=move.risks.implementation_risk),)


def agreement_question(frame: FrameState, move: Conclude, without: Verdict, agreed: Verdict) -> UserQuestion | None:
    """Return the question before a frame concludes with risky advice, or None if it would not change the verdict.

    Args:
        frame: Frame that concludes.
        move: The conclusion.
        without: Verdict without an acknowledgement.
        agreed: Verdict with an acknowledgement.
    """
    is_asked = bool(frame.turns and 0 in frame.turns[-1].calls)
    is_same = (without.stance, without.conditions) == (agreed.stance, agreed.conditions)
    if is_asked or is_same:
        return None
    risks, summary = move.risks, " ".join(move.summary.split())
    shown = summary if len(summary) <= _LONGEST_QUOTE else f"{summary[:_LONGEST_QUOTE]}..."
    text = (
        f"do you agree to acting on this advice of {frame.opened.agent.name}? Implementation risk "
        f"{risks.implementation_risk}, reversibility {risks.reversibility}: {shown}"
    )
    bound = _bound(move)
    return UserQuestion(new_id(Prefix.QUESTION), text, (APPROVE, DENY), "", bound, digest_of_value(bound))


def _bound(move: Conclude) -> JsonObject:
    """Return the content that an acknowledgement is bound to."""
    return {
        "conclusion_sha256": sha256(_as_encoded_before(move).encode()).hexdigest(),
        "implementation_risk": move.risks.implementation_risk,
        "reversibility": move.risks.reversibility,
    }


def _as_encoded_before(move: Conclude) -> str:
    """Return a conclusion as 0.1.0 encoded it, without what it did not know: a question may wait since then."""
    said = json.loads(encode(move))
    for claim, given in zip(said["claims"], move.claims, strict=True):
        if given == SupportedClaim(given.claim, given.evidence):
            for name in ("standing", "checks", "cited"):
                del claim[name]
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))
