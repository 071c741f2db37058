"""Types of a user's answer to a question."""

from __future__ import annotations

from enum import StrEnum


class AnswerType(StrEnum):
    """Of which type the answer to a question without options must be."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
