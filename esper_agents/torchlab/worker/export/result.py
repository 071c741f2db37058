"""Result of the job `export`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..results import MissingPart, WrittenFile
from ..target.source_place import PlacedReport, TracedFailure

ExportOutcome: TypeAlias = Literal["exports", "issues", "differs", "raises", "fails"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportIssue(PlacedReport):
    """Assumption of a draft export: its kind and what it is about."""

    kind: str
    op: str | None = None
    expr: str | None = None
    reason: str | None = None

    @property
    def said(self) -> str:
        """The issue in words, with its place."""
        about = ", ".join(each for each in (self.op, self.expr, self.reason) if each is not None)
        return f"{self.kind}: {about}" + (f" ({self.where})" if self.place else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportAttempt(TracedFailure):
    """Attempt to export in one way.

    Attributes:
        outcome: Its outcome.
        op_count: Number of operations of the program.
        compared: Number of inputs on which the program agrees with eager mode.
        inputs: Inputs on which it does not.
        difference: The difference there.
        type: Class of the exception.
        message: Its message.
        suggestion: Torch's suggestion.
        issues: Assumptions of a draft export.
        size: Size of the dynamic batch.
        size_bytes: Size of an ONNX program.
        is_training: Whether the module is in training mode.
    """

    outcome: ExportOutcome
    op_count: int | None = None
    compared: int | None = None
    inputs: str | None = None
    difference: str | None = None
    type: str | None = None
    message: str | None = None
    suggestion: str | None = None
    issues: tuple[ExportIssue, ...] | None = None
    size: int | None = None
    size_bytes: int | None = None
    is_training: bool | None = None

    @property
    def why(self) -> str:
        """The failure in words; empty without one."""
        said = self.difference or self.explanation or self.message or ""
        return said if self.inputs is None else f"on {self.inputs}: {said}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRun:
    """Measured part of a result: the attempts by name, missing parts and files that the job left."""

    attempts: dict[str, ExportAttempt]
    missing: tuple[MissingPart, ...]
    artifacts: tuple[WrittenFile, ...] = ()
