"""Measurement time of a comparison or a profile."""

from __future__ import annotations

from enum import StrEnum


class Effort(StrEnum):
    """Measurement time; of a comparison, after the equivalence check."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"
