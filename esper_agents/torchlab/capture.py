"""Inputs captured from a user's script: recorded once, reused by every measurement."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.errors import UsageError
from esper_agents.torchlab.report import OutputFile

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import TargetSpec, Tell

SUFFIX = ".espb"
_MOST_CALLS = 8


@dataclass(frozen=True, slots=True)
class CapturedTarget:
    """A target with the calls that a script made of it as its inputs.

    Attributes:
        target: The target; its inputs are the record's.
        source: What was run, or the record that was used again, as the person named it.
        record: The calls; the same file can be used again.
        result: What is said of the recording; empty where a record was used again.
    """

    target: TargetSpec
    source: str
    record: OutputFile
    result: JsonObject

    def described(self) -> JsonObject:
        """Return it as reports hold it."""
        return {"source": self.source, **self.record.described(), **self.result}


def with_captured(
    lab: Lab, target: TargetSpec, source: str, shared: Path, *, tell: Tell | None = None
) -> CapturedTarget:
    """Record the calls that a script makes of a target, or use an earlier record.

    Args:
        lab: Where the script runs; it was opened with `shared` among its roots.
        target: What is called; its `captured_from` is what the person calls the source, where that is not its path.
        source: `FILE.py`, `FILE.py:FUNCTION` without arguments, or what a capture left; relative to the project.
        shared: A folder for the record that workers can read.
        tell: Told how far it is.

    Raises:
        UsageError: No such file, or it makes no call that can be kept.
        WorkerError: The script hung, crashed or raised before it made one.
    """
    if source.endswith(SUFFIX):
        record, result = OutputFile(lab.project / source, "application/octet-stream"), {}
        if not record.path.is_file():
            remedy = f"capture with --capture FILE.py; it leaves calls{SUFFIX}"
            raise UsageError(f"there is no file {source!r}", remedy=remedy)
    else:
        asked = {"source": source, "calls": _MOST_CALLS}
        report = lab.job("capture", replace(target, captured=""), asked, tell=tell)
        record, result = report.made[0], dict(report.result)
    readable = shared / record.path.name
    shutil.copyfile(record.path, readable)
    named = target.captured_from or source
    return CapturedTarget(replace(target, captured=str(readable), captured_from=named), named, record, result)
