"""Reports of the lab: all measurements in one JSON document with the command to reproduce them."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from esper_agents.errors import IntegrityError, UsageError
from esper_agents.torchlab.measurement import measurement_kinds, subject_of

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.measurement import ReportSubject

SCHEMA = "urn:uuid:efb3b188-f73f-4522-ad3f-ae5a415f40ff#torchlab/report/1"
_SCHEMAS = frozenset({SCHEMA, "https://esper-agents.dev/torchlab/report/1"})
_KINDS = measurement_kinds()


@dataclass(frozen=True, slots=True)
class OutputFile:
    """Output file of a measurement.

    Attributes:
        path: Current path.
        media_type: Media type, such as `application/json`.
    """

    path: Path
    media_type: str

    def described(self) -> JsonObject:
        """Return its name, digest and size."""
        with self.path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        return {
            "name": self.path.name,
            "sha256": digest,
            "size_bytes": self.path.stat().st_size,
            "media_type": self.media_type,
        }


@dataclass(frozen=True, slots=True)
class MeasurementReport:
    """Report of one measurement.

    Attributes:
        kind: One of `measurement_kinds()`.
        body: The whole document; its `result` holds the findings.
        made: Output files.
    """

    kind: str
    body: JsonObject
    made: tuple[OutputFile, ...] = ()

    @property
    def result(self) -> JsonObject:
        """The result of the measurement."""
        result: JsonObject = self.body["result"]
        return result

    @property
    def subject(self) -> ReportSubject:
        """Target and request."""
        return subject_of(self.body)

    def with_output(self, file: OutputFile) -> MeasurementReport:
        """Return the report with another output file."""
        artifacts = [*self.body["artifacts"], file.described()]
        return MeasurementReport(self.kind, {**self.body, "artifacts": artifacts}, (*self.made, file))

    @property
    def interpreter(self) -> str:
        """Interpreter in words, if it is not the one of esper-agents or not the preferred one; otherwise empty."""
        environment = self.body.get("environment", {})
        if not (source := environment.get("interpreter")):
            return ""
        reasons = "; ".join(map(str, source["passed_over"]))
        version = environment.get("torch", {}).get("version", "unknown")
        return f"torch {version} of {source['name'] or 'esper-agents'}{f': {reasons}' if reasons else ''}"

    @property
    def packages_not_run(self) -> tuple[str, ...]:
        """Packages that were imported without their `__init__.py`, with what it raised, in words."""
        found = self.body.get("environment", {}).get("packages_not_run", ())
        return tuple(f"without running {each['package']}, which raised {each['error']}" for each in found)

    def text(self) -> str:
        """Return the document as JSON text; equal bodies give equal texts."""
        return json.dumps(self.body, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def read(path: Path) -> MeasurementReport:
    """Return a report from a file.

    Raises:
        UsageError: The file cannot be read.
        IntegrityError: It is not a report.
    """
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be read", remedy="name a measurement's report.json") from error
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{str(path)!r} is not valid JSON", remedy="name a measurement's report.json") from error
    if not isinstance(body, dict) or str(body.get("schema")) not in _SCHEMAS or str(body.get("kind")) not in _KINDS:
        raise IntegrityError(f"{str(path)!r} is not a measurement report", remedy=f"its schema must be {SCHEMA}")
    return MeasurementReport(str(body["kind"]), body)


def now() -> str:
    """Return the time in the format of reports: `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rounded(number: float, digits: int = 6) -> Any:
    """Return a number rounded to significant digits, or `nan`, `inf`, `-inf` as text, because JSON lacks them.

    Rounding also removes the last bits, in which logarithms differ between machines.
    """
    if not math.isfinite(number):
        return str(number)
    return float(f"{number:.{digits}g}")
