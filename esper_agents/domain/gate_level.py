"""Results at which the gate fails."""

from __future__ import annotations

from enum import StrEnum


class GateLevel(StrEnum):
    """Result at which the gate fails: any file without coverage, a verdict against a file, or none."""

    UNCOVERED = "uncovered"
    AGAINST = "against"
    NEVER = "never"
