"""Of which type an answer must be."""

from __future__ import annotations

from enum import StrEnum


class AnswerType(StrEnum):
    """Of which type the answer to a question without options must be."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
