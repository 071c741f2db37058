"""Risk acknowledgements: a named user's acceptance of advice with implementation risk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RiskAcknowledgement:
    """A user's answer to the request to accept the risk of acting on advice.

    Attributes:
        question: `qst_` identifier.
        by: Name of the user who answered.
        is_given: Whether the user accepted the risk.
        implementation_risk: The risk in question: Medium, High or Critical.
    """

    question: str
    by: str
    is_given: bool
    implementation_risk: str
