"""Types of a user's answer to a question."""

from __future__ import annotations

from enum import StrEnum


class AnswerType(StrEnum):
    """Type of the answer to a question without options."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
