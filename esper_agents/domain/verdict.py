"""Verdicts, and the ceiling that the policy sets for them."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.status import QuestionType, Stance, Status


@dataclass(frozen=True, slots=True)
class AppliedPolicyRule:
    """One line of the policy that applied.

    Attributes:
        name: The line's name in `policy.toml`.
        stance: The most it allows.
        because: What made it apply, in one sentence.
        findings: Fingerprints of the findings that made it apply.
    """

    name: str
    stance: Stance
    because: str
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The best that the evidence allows.

    Attributes:
        stance: The best stance.
        status: The same in the words of the kind of question.
        lines: Every line of the policy that applied, the deciding ones first.
        policy_sha256: Digest of the policy's text.
    """

    stance: Stance
    status: Status
    lines: tuple[AppliedPolicyRule, ...]
    policy_sha256: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is concluded.

    Attributes:
        kind: The kind of question.
        ceiling: The best that the evidence allows.
        stance: Where the verdict stands; never above the ceiling.
        status: The same in the words of the kind of question.
        rationale: Why.
        conditions: What must be met, for a conditional verdict.
        below_ceiling: The written reason for standing below the ceiling, else empty.
    """

    kind: QuestionType
    ceiling: Ceiling
    stance: Stance
    status: Status
    rationale: str
    conditions: tuple[str, ...]
    below_ceiling: str = ""
