"""Verify a stored report: recompute its conclusions from its measurements and compare its files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from esper_agents.errors import IntegrityError
from esper_agents.torchlab.measurement import measurement, measurement_kinds

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.report import MeasurementReport

_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError)


@dataclass(frozen=True, slots=True)
class RecheckResult:
    """Result of a successful verification of a report.

    Attributes:
        kind: Kind of measurement.
        started_at: Start time.
        says: Conclusion in words.
        artifacts: Neighbouring files with unchanged digests.
        absent: Files named by the report that are missing.
    """

    kind: str
    started_at: str
    says: str
    artifacts: tuple[str, ...]
    absent: tuple[str, ...]

    def described(self) -> JsonObject:
        """Return the result as JSON."""
        return {
            "kind": self.kind,
            "started_at": self.started_at,
            "says": self.says,
            "artifacts": list(self.artifacts),
            "absent": list(self.absent),
        }


def recheck(report: MeasurementReport, folder: Path) -> RecheckResult:
    """Recompute the conclusions of a report, and verify the files in its folder.

    Args:
        report: The report.
        folder: Folder of the report.

    Raises:
        IntegrityError: Its conclusions do not follow from its measurements, or a file has changed.
    """
    try:
        says = _says(report)
        started_at = str(report.body["started_at"])
        files = [*report.body["artifacts"], *([report.body["captured"]] if "captured" in report.body else [])]
        listed = [(str(each["name"]), str(each["sha256"])) for each in files]
    except _DAMAGE as error:
        raise IntegrityError("the report lacks measurements for its conclusions", remedy="measure again") from error
    artifacts, absent = [], []
    for name, sha256 in listed:
        file = folder / name
        # A name with a path component was not written by the lab.
        if "/" in name or not file.is_file():
            absent.append(name)
            continue
        with file.open("rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() != sha256:
                raise IntegrityError(f"{name!r} does not match its digest in the report", remedy="measure again")
        artifacts.append(name)
    return RecheckResult(report.kind, started_at, says, tuple(artifacts), tuple(absent))


def _says(report: MeasurementReport) -> str:
    match report.kind:
        case "compare":
            from esper_agents.torchlab.compare.acceptance_rules import acceptance
            from esper_agents.torchlab.compare.compare import recheck as judged

            verdict = judged(report)
            own = "" if report.result["rules"] == acceptance() else " (by acceptance rules that are not those of here)"
            return f"{verdict['outcome']}: {'; '.join(verdict['because'])}{own}"
        case "explain" | "export" | "memory" | "nan" | "watch" as kind:
            explained = import_module(f"esper_agents.torchlab.{kind}").explained
            return str(_same(report, explained(report.result))["headline"])
        case "profile":
            from esper_agents.torchlab.profile import profiled

            return str(_same(report, profiled(report.body))["headline"])
        case kind if kind in measurement_kinds():
            return str(_same(report, measurement(kind).explained(report.result))["headline"])
        case _:
            raise IntegrityError(f"reports of kind {report.kind!r} have no conclusions", remedy="measure again")


def _same(report: MeasurementReport, again: JsonObject) -> JsonObject:
    stated: Any = report.result
    again = json.loads(json.dumps(again))
    if stated != again:
        different = sorted(name for name in {*stated, *again} if stated.get(name) != again.get(name))
        raise IntegrityError(
            f"the report's conclusions do not follow from its measurements: {', '.join(different)}",
            remedy="measure again",
        )
    return again
