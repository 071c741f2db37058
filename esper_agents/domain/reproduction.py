"""Outcomes of re-running evidence: reproduced, differs, not comparable or not run."""

from __future__ import annotations

from enum import StrEnum

# Task options: the certificate whose evidence is to be re-run, and the identifiers of that evidence.
REPRODUCE, EVIDENCE = "reproduce", "evidence"


class ReproductionOutcome(StrEnum):
    """Outcome of re-running a piece of evidence, worst first."""

    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"
    NOT_RUN = "not run"
    REPRODUCED = "reproduced"
