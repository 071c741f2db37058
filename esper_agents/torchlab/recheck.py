"""Verify a stored report: recompute its conclusions from its measurements and compare its files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.domain.codec import plain
from esper_agents.errors import IntegrityError
from esper_agents.torchlab.measurement import measurement, measurement_kinds

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.report import MeasurementReport

# Texts of conclusions in reports of earlier versions, and what they are now.
_RENAMED = {"run this with --limit in CI": "run this with --device-memory in CI"}
_EMPTY: tuple[object, ...] = (None, [], {})
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
    if report.kind not in measurement_kinds():
        raise IntegrityError(f"reports of kind {report.kind!r} have no conclusions", remedy="measure again")
    about = measurement(report.kind)
    result = about.explained(about.measurements(report.body), report.subject)
    remark = about.remark(result, report.body)
    _compare(report, plain(result))
    return f"{result.headline}{remark}"


def _compare(report: MeasurementReport, again: JsonObject) -> None:
    """Raise an error if the stated result differs; an empty part and an absent one mean the same."""
    text = json.dumps(report.result)
    for before, now in _RENAMED.items():
        text = text.replace(before, now)
    stated, again = _filled(json.loads(text)), _filled(json.loads(json.dumps(again)))
    if stated != again:
        different = sorted(name for name in {*stated, *again} if stated.get(name) != again.get(name))
        raise IntegrityError(
            f"the report's conclusions do not follow from its measurements: {', '.join(different)}",
            remedy="measure again",
        )


def _filled(value: Any) -> Any:
    """Return JSON without members that are null, or an empty list or object."""
    match value:
        case dict():
            return {name: part for name, each in value.items() if (part := _filled(each)) not in _EMPTY}
        case list():
            return [_filled(each) for each in value]
        case _:
            return value
