"""Verdicts, and the ceiling that the policy sets for them."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.status import QuestionType, Stance, Status


@dataclass(frozen=True, slots=True)
class AppliedPolicyRule:
    """A policy rule that applied to a verdict.

    Attributes:
        name: The rule's name in `policy.toml`.
        stance: The best stance that it allows.
        because: Why it applied, in one sentence.
        findings: Fingerprints of the findings that it applied to.
    """

    name: str
    stance: Stance
    because: str
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The best stance and status that the policy allows for the evidence.

    Attributes:
        stance: The best stance.
        status: The status for that stance in the question type.
        lines: The policy rules that applied, the deciding ones first.
        policy_sha256: Digest of the policy's text.
    """

    stance: Stance
    status: Status
    lines: tuple[AppliedPolicyRule, ...]
    policy_sha256: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict: status, rationale and conditions.

    Attributes:
        kind: The question type.
        ceiling: The best stance and status that the evidence allows.
        stance: The stance; never above the ceiling.
        status: The status for that stance in the question type.
        rationale: Reason for the verdict.
        conditions: Conditions to meet, for a conditional verdict.
        below_ceiling: The written reason for standing below the ceiling, else empty.
    """

    kind: QuestionType
    ceiling: Ceiling
    stance: Stance
    status: Status
    rationale: str
    conditions: tuple[str, ...]
    below_ceiling: str = ""
