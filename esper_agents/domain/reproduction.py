"""Outcomes of re-running evidence: reproduced, differs, not comparable or not run."""

from __future__ import annotations

from enum import StrEnum

# Options of a task: the certificate whose evidence is to be run again, and the identifiers of that evidence.
REPRODUCE, EVIDENCE = "reproduce", "evidence"


class ReproductionOutcome(StrEnum):
    """How a piece of evidence came out when it was run again, from worst."""

    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"
    NOT_RUN = "not run"
    REPRODUCED = "reproduced"
