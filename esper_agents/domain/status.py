"""Question types, the eleven statuses, and their order within each question type."""

from __future__ import annotations

from enum import StrEnum

from esper_agents.errors import ExitCode


class QuestionType(StrEnum):
    """What sort of judgement a task asks for; it follows from the task's words."""

    APPROVAL = "approval"
    GO = "go"
    RECOMMENDATION = "recommendation"
    ADVICE = "advice"


class Status(StrEnum):
    """What a certificate may conclude; there is no twelfth."""

    APPROVED = "APPROVED"
    CONDITIONALLY_APPROVED = "CONDITIONALLY_APPROVED"
    REJECTED = "REJECTED"
    REQUIRES_REMEDIATION = "REQUIRES_REMEDIATION"
    GO = "GO"
    NO_GO = "NO_GO"
    RECOMMEND = "RECOMMEND"
    DO_NOT_RECOMMEND = "DO_NOT_RECOMMEND"
    ADVISORY_ONLY = "ADVISORY_ONLY"
    NEEDS_FURTHER_REVIEW = "NEEDS_FURTHER_REVIEW"
    EMERGENCY_STOP = "EMERGENCY_STOP"


class Stance(StrEnum):
    """Where a verdict stands, whatever its kind; each kind spells the stances in statuses of its own."""

    FOR = "for"
    CONDITIONAL = "conditional"
    UNDECIDED = "undecided"
    AGAINST = "against"
    REJECTED = "rejected"
    EMERGENCY = "emergency"


# From best to worst. A ceiling allows itself and everything after it in its row.
STANCES = tuple(Stance)


def status_for(kind: QuestionType, stance: Stance) -> Status:
    """Return how a kind of question spells a stance."""
    match stance:
        case Stance.EMERGENCY:
            return Status.EMERGENCY_STOP
        case Stance.UNDECIDED:
            return Status.NEEDS_FURTHER_REVIEW
        case Stance.FOR | Stance.CONDITIONAL | Stance.AGAINST | Stance.REJECTED:
            return _SPELLING[kind][stance]


_SPELLING = {
    QuestionType.APPROVAL: {
        Stance.FOR: Status.APPROVED,
        Stance.CONDITIONAL: Status.CONDITIONALLY_APPROVED,
        Stance.AGAINST: Status.REQUIRES_REMEDIATION,
        Stance.REJECTED: Status.REJECTED,
    },
    QuestionType.GO: {
        Stance.FOR: Status.GO,
        Stance.CONDITIONAL: Status.GO,
        Stance.AGAINST: Status.NO_GO,
        Stance.REJECTED: Status.NO_GO,
    },
    QuestionType.RECOMMENDATION: {
        Stance.FOR: Status.RECOMMEND,
        Stance.CONDITIONAL: Status.RECOMMEND,
        Stance.AGAINST: Status.DO_NOT_RECOMMEND,
        Stance.REJECTED: Status.DO_NOT_RECOMMEND,
    },
    # Advice has nothing to be against: what speaks against the code is in its findings.
    QuestionType.ADVICE: {
        Stance.FOR: Status.ADVISORY_ONLY,
        Stance.CONDITIONAL: Status.ADVISORY_ONLY,
        Stance.AGAINST: Status.ADVISORY_ONLY,
        Stance.REJECTED: Status.ADVISORY_ONLY,
    },
}


def statuses_of(kind: QuestionType) -> tuple[Status, ...]:
    """Return the statuses of a kind of question from best to worst, each once."""
    return tuple(dict.fromkeys(status_for(kind, each) for each in STANCES))


def replacements(kind: QuestionType, status: Status) -> tuple[Status, ...]:
    """Return what a person may put in the place of a status, from best to worst; nothing replaces EMERGENCY_STOP."""
    if status is Status.EMERGENCY_STOP:
        return ()
    return tuple(each for each in statuses_of(kind) if each is not Status.EMERGENCY_STOP)


def exit_code(status: Status) -> ExitCode:
    """Return what the command line exits with after this verdict."""
    match status:
        case Status.APPROVED | Status.CONDITIONALLY_APPROVED | Status.GO | Status.RECOMMEND | Status.ADVISORY_ONLY:
            return ExitCode.DONE
        case Status.REJECTED | Status.REQUIRES_REMEDIATION | Status.NO_GO | Status.DO_NOT_RECOMMEND:
            return ExitCode.AGAINST
        case Status.NEEDS_FURTHER_REVIEW:
            return ExitCode.UNDECIDED
        case Status.EMERGENCY_STOP:
            return ExitCode.EMERGENCY_STOP
