"""Shared parts of the torch tools: run a measurement, store its output files, list the files run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from esper_agents.domain.evidence import source_file
from esper_agents.domain.finding import Confidence, Diagnostic, Location, fingerprint
from esper_agents.domain.text_lines import text_lines
from esper_agents.errors import EsperError, EvidenceError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.tools.file_access import named_ignored
from esper_agents.tools.lab_pool import LabPool
from esper_agents.torchlab.harness import has_synthetic_inputs, is_generated
from esper_agents.torchlab.target import TargetSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import Artifact, SourceFile
    from esper_agents.tools.tool import ToolContext
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import MeasuredClaim
    from esper_agents.torchlab.report import MeasurementReport

_MOST_ENTRIES = 20
_LONGEST_TEXT = 600
_ENOUGH_WITNESSES = 3


@dataclass(frozen=True, slots=True)
class MeasurementResult:
    """Result of a measurement.

    Attributes:
        report: The report.
        artifacts: The whole report and the files produced, as stored.
        examined: User files that were run, verified unchanged during the measurement.
    """

    report: MeasurementReport
    artifacts: tuple[Artifact, ...]
    examined: tuple[SourceFile, ...]


def spec(target: str, inputs: Sequence[str] | None, inputs_from: str | None) -> TargetSpec:
    """Return the target specification for the lab."""
    return TargetSpec(target, tuple(inputs or ()), inputs_from or None)


def command(name: str, *targets: str, **options: Any) -> str:
    """Return the command line of a measurement; options that are empty, false or None are omitted."""
    words = ["esper", "torch", name, *map(quote, targets)]
    for option, given in options.items():
        flag = f"--{option.replace('_', '-')}"
        match given:
            case None | False | "" | [] | ():
                continue
            case True:
                words.append(flag)
            case list() | tuple():
                words += [word for each in given for word in (flag, quote(str(each)))]
            case _:
                words += [flag, quote(str(given))]
    return " ".join(words)


async def measure(
    context: ToolContext,
    files: Sequence[str | None],
    work: Callable[[Lab], MeasurementReport],
    *,
    roots: Sequence[Path] = (),
) -> MeasurementResult:
    """Run a measurement in the lab.

    Args:
        context: The project, and the artifact store.
        files: Targets, as `FILE.py:NAME`, whose files must not change during the measurement.
        work: The measurement.
        roots: Further folders that the measured code may read.

    Raises:
        EvidenceError: The measurement failed, or a file changed during it.
        UsageError: The target or its inputs cannot be used.
    """
    before = {path: _digest(context, path) for path in sorted({_file_of(file) for file in files if file}) if path}

    def run(lab: Lab) -> tuple[MeasurementReport, tuple[Artifact, ...]]:
        report = work(lab)
        return report, tuple(_kept(context, report))

    bench = context.bench or LabPool(context.root)
    try:
        report, artifacts = await bench.measure(run, roots=roots, asked=named_ignored(context))
    finally:
        if context.bench is None:
            await bench.close()
    examined = tuple(_examined(context, {*before, *_files(report.body)}))
    after = {each.path: each.sha256 for each in examined}
    if changed := [path for path in before if path in after and after[path] != before[path]]:
        raise EvidenceError(f"{changed[0]!r} changed while it was measured", remedy="measure again")
    return MeasurementResult(report, artifacts, examined)


def synthetic(context: ToolContext, *targets: str) -> JsonObject:
    """Return the member of an output that marks inputs chosen by the program; empty for other inputs.

    Args:
        context: The project.
        targets: Targets and functions that create inputs, as `FILE.py:NAME`.
    """
    return (
        {"synthetic": True} if any(has_synthetic_inputs(context.root, target) for target in targets if target) else {}
    )


def _file_of(target: str) -> str:
    where = target.rpartition(":")[0]
    return where if where.endswith(".py") else ""


def _digest(context: ToolContext, path: str) -> str:
    return source_file(path, context.inside(path).read_bytes()).sha256


def _kept(context: ToolContext, report: MeasurementReport) -> Iterator[Artifact]:
    """Store the whole report and the produced files; empty without a store."""
    if context.home is None:
        return
    store = Artifacts(context.home / "artifacts")
    with TemporaryDirectory(prefix="esper-report-") as folder:
        whole = Path(folder, f"{report.kind}.json")
        whole.write_text(report.text(), encoding="utf-8")
        yield store.keep(whole, whole.name, "application/json")
    for made in report.made:
        yield store.keep(made.path, made.path.name, made.media_type)


def _examined(context: ToolContext, paths: set[str]) -> Iterator[SourceFile]:
    for path in sorted(paths):
        try:
            inside = context.inside(path)
            data = inside.read_bytes() if inside.is_file() else None
        except (EsperError, OSError):
            continue
        # A generated harness is an input of the run, not code that was reviewed.
        if data is not None and not is_generated(context.root, f"{path}:make"):
            yield source_file(path, data)


def _files(value: object) -> Iterator[str]:
    """Yield every value of a `file` key in a report."""
    match value:
        case dict():
            for name, each in value.items():
                if name == "file" and isinstance(each, str) and each:
                    yield each
                else:
                    yield from _files(each)
        case list() | tuple():
            for each in value:
                yield from _files(each)
        case _:
            return


def definition(context: ToolContext, target: str) -> tuple[str, int]:
    """Return the file and the line of a target's definition from source; line 1 if it is not found."""
    file, _, name = target.rpartition(":")
    first = name.split(".", maxsplit=1)[0]
    try:
        body = ast.parse(context.inside(file).read_bytes()).body
    except (EsperError, OSError, SyntaxError, ValueError):
        return file, 1
    defined = [each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == first]
    return file, defined[-1].lineno if defined else 1


def diagnostic_of(context: ToolContext, claim: MeasuredClaim) -> Diagnostic | None:
    """Return the diagnostic for a claim; None if its line cannot be read.

    The names of its witnesses determine the confidence.
    """
    path, line, rule = claim.file, claim.line, claim.rule
    try:
        lines = text_lines(context.inside(path).read_text(encoding="utf-8", errors="replace")) if path else []
    except (EsperError, OSError):
        lines = []
    if not 1 <= line <= len(lines):
        return None
    text = lines[line - 1]
    return Diagnostic(
        rule=rule.code,
        name=rule.name,
        severity=rule.severity,
        category=rule.category,
        location=Location(path, line, 1, line),
        message=claim.message,
        remedy=claim.remedy,
        confidence=confidence(claim.witnesses, claim.possible),
        basis=basis(claim.witnesses),
        excerpt=text,
        fingerprint=fingerprint(rule.code, path, text, sum(each.split() == text.split() for each in lines[: line - 1])),
    )


def confidence(witnesses: Sequence[str], possible: int = _ENOUGH_WITNESSES) -> Confidence:
    """Return the confidence: High with three independent observations, or with two if only two are possible."""
    seen = len(set(witnesses))
    if seen >= min(_ENOUGH_WITNESSES, max(possible, 2)):
        return Confidence.HIGH
    return Confidence.MODERATE if seen else Confidence.LOW


def basis(witnesses: Sequence[str]) -> str:
    """Return the basis of a diagnostic, in words."""
    named = sorted(set(witnesses))
    return f"measured; seen by {', '.join(named)}" if named else "inferred from a measurement"


def outlined(
    report: MeasurementReport, *, witnesses: Sequence[str], only: Sequence[str] | None = None, **more: Any
) -> JsonObject:
    """Return the part of a report to record: the most important fields first, and the result with long lists cut.

    Args:
        report: The report; the whole report is stored as an artifact.
        witnesses: Independent observations.
        only: Parts of the result to keep; all if omitted.
        more: Important fields to put first.
    """
    result = {name: each for name, each in report.result.items() if only is None or name in only}
    body = report.body
    return {
        **more,
        "kind": str(body.get("target", {}).get("kind", "")),
        "witnesses": list(witnesses),
        "torch": str(body.get("environment", {}).get("torch", {}).get("version", "unknown")),
        **({"interpreter": report.interpreter} if report.interpreter else {}),
        **({"packages_not_run": list(report.packages_not_run)} if report.packages_not_run else {}),
        "machine": _machine(body.get("environment", {})),
        "device": str(report.result.get("device", "")),
        "sandbox": trimmed(body.get("sandbox", {})),
        "request": trimmed(body.get("request", {})),
        "result": trimmed(result),
    }


def _machine(environment: JsonObject) -> str:
    """Return the hardware: processor name, torch's CPU capability, and other devices by name."""
    torch: JsonObject = environment.get("torch", {})
    devices = [str(each.get("name") or each.get("type")) for each in torch.get("devices", ())]
    named = [environment.get("cpu", {}).get("model"), torch.get("cpu_capability"), *devices]
    return ", ".join(dict.fromkeys(str(each) for each in named if each and each != "cpu")) or "unknown"


def trimmed(value: object) -> Any:
    """Return JSON with long lists and texts cut and marked."""
    match value:
        case dict():
            return {str(name): trimmed(each) for name, each in value.items()}
        case list() | tuple():
            kept = [trimmed(each) for each in value[:_MOST_ENTRIES]]
            return kept if len(value) <= _MOST_ENTRIES else [*kept, f"and {len(value) - _MOST_ENTRIES} more"]
        case str() if len(value) > _LONGEST_TEXT:
            return f"{value[:_LONGEST_TEXT]}..."
        case _:
            return value
