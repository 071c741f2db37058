"""Risk acknowledgements: a named user's acceptance of advice with implementation risk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RiskAcknowledgement:
    """A person's answer to the question whether they agree to the risk of acting on advice.

    Attributes:
        question: `qst_` identifier.
        by: Who answered.
        is_given: Whether they agreed.
        implementation_risk: The risk that they were asked about: Medium, High or Critical.
    """

    question: str
    by: str
    is_given: bool
    implementation_risk: str
