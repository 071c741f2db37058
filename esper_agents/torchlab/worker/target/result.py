"""Replies of a measurement process about its target: its description, an exception, captured calls."""

from __future__ import annotations

from dataclasses import dataclass

from ..results import UserFrame, WrittenFile


@dataclass(frozen=True, slots=True)
class LoadedSummary:
    """Target that was loaded: its name and kind, its definition if it is in the project, and its device."""

    name: str
    kind: str
    file: str | None
    line: int | None
    device: str


@dataclass(frozen=True, slots=True)
class PackageNotRun:
    """Package that was imported without its `__init__.py`: that file, and what it raised."""

    file: str
    error: str


@dataclass(frozen=True, slots=True)
class RaisedDescription:
    """Exception in a measurement process.

    Attributes:
        type: Its class.
        message: Its message.
        frames: Frames of the user's code, innermost last.
        problem: Problem of a target that cannot be used so; empty for another exception.
        remedy: Fix of that problem.
        memory: Whether memory ran out.
        refused: Absolute path of the file whose failed opening caused it; empty if none.
    """

    type: str
    message: str
    frames: tuple[UserFrame, ...]
    problem: str = ""
    remedy: str = ""
    memory: bool = False
    refused: str = ""


@dataclass(frozen=True, slots=True)
class CapturedCalls:
    """Result of the job `capture`.

    Attributes:
        calls: Number of recorded calls.
        seen: Number of calls until the recording ended.
        nbytes: Bytes of their tensors.
        stopped_early: Whether the source was ended once there were enough calls.
        ended: Exception that ended the source; empty if there was none.
        artifacts: File of the calls.
    """

    calls: int
    seen: int
    nbytes: int
    stopped_early: bool
    ended: str
    artifacts: tuple[WrittenFile, ...] = ()
