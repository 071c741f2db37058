"""Inputs captured from a user's script: recorded once, reused by every measurement."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.domain.codec import plain
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab.report import OutputFile
from esper_agents.torchlab.worker.target.result import CapturedCalls
from esper_agents.torchlab.worker_failure import read_result

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.target import TargetSpec, Tell

SUFFIX = ".espb"
_MOST_CALLS = 8


@dataclass(frozen=True, slots=True)
class CapturedTarget:
    """Target whose inputs are calls captured from a script.

    Attributes:
        target: The target; its inputs are those of the record.
        source: The script that was run, or the record that was reused, as named by the user.
        record: File of the calls, for reuse.
        calls: Result of the recording; None if a record was reused.
    """

    target: TargetSpec
    source: str
    record: OutputFile
    calls: CapturedCalls | None

    def described(self) -> JsonObject:
        """Return the capture as stored in reports."""
        return {"source": self.source, **self.record.described(), **(plain(self.calls) if self.calls else {})}


def with_captured(
    lab: Lab, target: TargetSpec, source: str, shared: Path, *, tell: Tell | None = None
) -> CapturedTarget:
    """Record the calls that a script makes to a target, or load an earlier record.

    Args:
        lab: Lab for the script; it was opened with `shared` among its roots.
        target: The called target; its `captured_from` is the user's name of the source, if that is not its path.
        source: `FILE.py`, `FILE.py:FUNCTION` without arguments, or a record of a capture; relative to the project.
        shared: Folder for the record that measurement processes can read.
        tell: Progress callback.

    Raises:
        UsageError: There is no such file, or it makes no recordable call.
        WorkerError: The script hung, crashed or raised before its first call.
    """
    if source.endswith(SUFFIX):
        record, calls = OutputFile(lab.project / source, "application/octet-stream"), None
        if not record.path.is_file():
            remedy = f"capture with --capture FILE.py; it leaves calls{SUFFIX}"
            raise UsageError(f"there is no file {source!r}", remedy=remedy)
    else:
        asked = {"source": source, "calls": _MOST_CALLS}
        report = lab.job("capture", replace(target, captured=""), asked, tell=tell)
        if not report.made:
            raise EvidenceError("the measurement process left no record of the calls", remedy="measure again")
        record, calls = report.made[0], read_result(CapturedCalls, report.result)
    readable = shared / record.path.name
    shutil.copyfile(record.path, readable)
    named = target.captured_from or source
    return CapturedTarget(replace(target, captured=str(readable), captured_from=named), named, record, calls)
