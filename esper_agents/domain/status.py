"""Question types, the eleven statuses, and their order within each question type."""

from __future__ import annotations

from enum import StrEnum

from esper_agents.errors import ExitCode


class QuestionType(StrEnum):
    """Type of verdict that a task requests; determined from the words of its request."""

    APPROVAL = "approval"
    GO = "go"
    RECOMMENDATION = "recommendation"
    ADVICE = "advice"


class Status(StrEnum):
    """Status of a certificate; the set of eleven is closed."""

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
    """Direction of a verdict, independent of the question type; each question type maps it to its own statuses."""

    FOR = "for"
    CONDITIONAL = "conditional"
    UNDECIDED = "undecided"
    AGAINST = "against"
    REJECTED = "rejected"
    EMERGENCY = "emergency"


# From best to worst. A ceiling allows its own stance and all later ones.
STANCES = tuple(Stance)


def status_for(kind: QuestionType, stance: Stance) -> Status:
    """Return the status for a stance in a question type."""
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
    # Advice has no negative status: objections to the code are findings.
    QuestionType.ADVICE: {
        Stance.FOR: Status.ADVISORY_ONLY,
        Stance.CONDITIONAL: Status.ADVISORY_ONLY,
        Stance.AGAINST: Status.ADVISORY_ONLY,
        Stance.REJECTED: Status.ADVISORY_ONLY,
    },
}


def statuses_of(kind: QuestionType) -> tuple[Status, ...]:
    """Return the distinct statuses of a question type from best to worst."""
    return tuple(dict.fromkeys(status_for(kind, stance) for stance in STANCES))


def replacements(kind: QuestionType, status: Status) -> tuple[Status, ...]:
    """Return the statuses that a user may override a status with, best first; none for EMERGENCY_STOP."""
    if status is Status.EMERGENCY_STOP:
        return ()
    return tuple(each for each in statuses_of(kind) if each is not Status.EMERGENCY_STOP)


def exit_code(status: Status) -> ExitCode:
    """Return the exit code of the command line for a status."""
    match status:
        case Status.APPROVED | Status.CONDITIONALLY_APPROVED | Status.GO | Status.RECOMMEND | Status.ADVISORY_ONLY:
            return ExitCode.DONE
        case Status.REJECTED | Status.REQUIRES_REMEDIATION | Status.NO_GO | Status.DO_NOT_RECOMMEND:
            return ExitCode.AGAINST
        case Status.NEEDS_FURTHER_REVIEW:
            return ExitCode.UNDECIDED
        case Status.EMERGENCY_STOP:
            return ExitCode.EMERGENCY_STOP
