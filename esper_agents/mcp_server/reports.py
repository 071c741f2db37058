"""Results of measurements in compact form, from the descriptor of each measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.mcp_server.results import ComparisonAnswer, FindingRow, MeasurementAnswer, clipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.api import MeasurementDescriptor, MeasurementReport, ReportSection, StoredReport

REPORT = "esper://report/"
_MOST_ROWS, _MOST_FINDINGS, _MOST_REASONS = 16, 8, 3
_LONGEST_ROW = 240


def measurement_answer(stored: StoredReport) -> MeasurementAnswer:
    """Return the compact result of a measurement."""
    report = stored.report
    measurement = _descriptor(report)
    result, subject = measurement.parsed(report), report.subject
    outline = measurement.outline(subject.name, result)
    findings = [
        FindingRow(
            rule=claim.rule.code,
            severity=str(claim.rule.severity),
            at=f"{claim.file}:{claim.line}" if claim.file else "",
            message=clipped(claim.message),
            fix=clipped(claim.remedy),
        )
        for claim in measurement.claims(result, subject)
    ]
    rows = [row for section in measurement.sections(result, subject) for row in _rows(section)]
    return MeasurementAnswer(
        report.kind,
        subject.title,
        clipped(outline.said),
        tuple(findings[:_MOST_FINDINGS]),
        tuple(clipped(row, _LONGEST_ROW) for row in rows[:_MOST_ROWS]),
        REPORT + stored.folder.name,
        max(0, len(rows) - _MOST_ROWS),
    )


def comparison_answer(stored: StoredReport) -> ComparisonAnswer:
    """Return the compact result of a comparison."""
    result = _descriptor(stored.report).parsed(stored.report)
    verdict, subject = result.verdict, stored.report.subject
    speedup = verdict.speedup
    failed = [check for check in result.checks if not check.is_passed]
    return ComparisonAnswer(
        outcome=verdict.outcome.value,
        because=tuple(clipped(each, 200) for each in verdict.because[:_MOST_REASONS]),
        baseline=clipped(subject.baseline or subject.name, 200),
        candidate=clipped(subject.name, 200),
        claimed=result.threshold,
        speedup=speedup.estimate if speedup else None,
        interval=(speedup.lower, speedup.upper) if speedup else (),
        confidence=speedup.confidence if speedup else None,
        replicates=verdict.replicates or 0,
        failed_checks=len(failed),
        checks=len(result.checks),
        report=REPORT + stored.folder.name,
    )


def _descriptor(report: MeasurementReport) -> MeasurementDescriptor:
    from esper_agents.api import measurements

    return next(measurement for measurement in measurements() if measurement.kind == report.kind)


def _rows(section: ReportSection) -> Iterator[str]:
    """Yield the labelled texts and the table rows of a printed section."""
    if section.title:
        yield " ".join((section.title, *section.facts))
    if section.note:
        yield section.note
    for label, text in section.pairs:
        yield f"{label}: {text}" if label else text
    for cells in section.cells:
        yield "  ".join(cell for cell in cells if cell)
