"""Re-run a recorded piece of evidence on its original files and compare the result."""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict, dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.certificates.json_conversion import to_json
from esper_agents.certificates.redaction import redacted, redaction_count, secrets_of
from esper_agents.certificates.statement import parse
from esper_agents.domain.codec import canonical, checked
from esper_agents.domain.evidence import CallOutcome, Risk
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.domain.reproduction import ReproductionOutcome
from esper_agents.domain.text_lines import text_lines
from esper_agents.errors import EsperError, EvidenceError, NotFoundError
from esper_agents.tools.certified_tree import in_thread, renamed, scratch_tree
from esper_agents.tools.lab_pool import LabPool
from esper_agents.tools.output_comparison import OutputComparison, OutputDifference, compare_exactly, difference
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import Evidence
    from esper_agents.tools.certified_tree import ScratchTree
    from esper_agents.tools.tool import Tool

_NAME = "reproduce-evidence"
_RULE, _RULE_NAME = "DIFFERS", "evidence-differs"
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class _Place:
    """Source line that a diagnostic can refer to."""

    location: Location
    excerpt: str


@dataclass(frozen=True, slots=True)
class _Ran:
    """Outcome of a repeated run; without a result, nothing was run."""

    compared: OutputComparison
    result: ToolResult | None = None
    provider: str = ""
    place: _Place | None = None


@tool(
    _NAME,
    risk=Risk.LOW,
    repeatable=True,
    rerun=lambda arguments: f"esper certificates reproduce {quote(str(arguments['certificate']))}",
)
async def reproduce_evidence(context: ToolContext, certificate: str, evidence: str) -> ToolResult:
    """Re-run one recorded tool call on the recorded files in a scratch folder, and compare its output.

    The outcome is reproduced, differs, not comparable or not run, with the reason. Only tools that need no approval are
    run.

    Args:
        context: The project.
        certificate: Full identifier of the certificate.
        evidence: Full identifier of the evidence in it.
    """
    if context.records is None:
        raise EvidenceError("no certificate archive is available", remedy="call it within a session of the project")
    issued = parse(await asyncio.to_thread(context.records, certificate))
    recorded = {each.id: each for each in issued.evidence}
    if evidence not in recorded:
        listing = f"esper certificates show {certificate}"
        raise NotFoundError("evidence", evidence, recorded, listing=listing)
    ran = await _ran(context, issued, recorded[evidence])
    return _result(issued, recorded[evidence], ran)


async def _ran(context: ToolContext, issued: Certificate, evidence: Evidence) -> _Ran:
    installed = context.tools.get(evidence.tool)
    if installed is None:
        provider = evidence.provider or "unknown"
        return _Ran(_not_run(f"no tool {evidence.tool!r} is installed here; its provider was {provider}"))
    if why := next(_refusals(installed, evidence), ""):
        return _Ran(_not_run(why))
    files = {each.path: each for each in (*issued.examined, *evidence.examined)}
    async with in_thread(scratch_tree(context.root, issued.revision, tuple(files.values()))) as tree:
        if gone := [each.path for each in evidence.examined if each.path in tree.missing]:
            return _Ran(_not_run(f"{gone[0]!r} is no longer available in its certified version"))
        return await _run_in(tree, context, issued, installed, evidence)


async def _run_in(
    tree: ScratchTree, context: ToolContext, issued: Certificate, installed: Tool, evidence: Evidence
) -> _Ran:
    bench = LabPool(tree.root)
    inside = replace(context, root=tree.root, bench=bench, records=None, memory=None)
    try:
        result = checked(ToolResult, await installed.run(inside, evidence.arguments))
    except EsperError as error:
        return _Ran(_failed(evidence, error.problem.replace(str(tree.root), str(context.root))))
    except Exception as error:  # noqa: BLE001 - an exception is not a result
        return _Ran(_failed(evidence, f"{type(error).__name__}: {error}"))
    finally:
        await bench.close()
    if evidence.outcome is not CallOutcome.COMPLETED:
        why = f"it {evidence.outcome} when it was recorded, and did not now"
        return _Ran(OutputComparison(ReproductionOutcome.NOT_COMPARABLE, why), result, installed.provider)
    found = _compared(issued, installed, evidence, _as_recorded(result, tree, context))
    if found.outcome is ReproductionOutcome.DIFFERS and (why := _excuse(installed, evidence, tree)):
        found = replace(found, outcome=ReproductionOutcome.NOT_COMPARABLE, why=f"{why}; {found.why}")
    return _Ran(found, result, installed.provider, _place(issued, evidence, tree))


def _refusals(installed: Tool, evidence: Evidence) -> Iterator[str]:
    """Yield the reasons not to re-run a tool; nothing if it may be re-run."""
    if evidence.outcome in {CallOutcome.DENIED, CallOutcome.INTERRUPTED}:
        yield f"it was {evidence.outcome} when it was recorded, so there is nothing to compare with"
    if installed.name == _NAME:
        yield "it is a reproduction itself; reproduce its original evidence instead"
    risk = max(installed.risk, evidence.risk, key=tuple(Risk).index)
    if risk is not Risk.LOW:
        yield f"its risk is {risk}, so it needs approval"
    if not (installed.is_repeatable and evidence.is_repeatable):
        yield "the tool is not repeatable"
    one, other = _distribution(evidence.provider), _distribution(installed.provider)
    if one != other:
        yield f"its provider was {one or 'unknown'}, and the installed tool is from {other or 'an unknown one'}"
    if redaction_count(canonical(evidence.arguments).decode("utf-8", "replace")):
        yield "a secret was redacted from its arguments, so the call cannot be repeated"


def _distribution(provider: str) -> str:
    return provider.partition(" ")[0]


def _not_run(why: str) -> OutputComparison:
    return OutputComparison(ReproductionOutcome.NOT_RUN, why)


def _failed(evidence: Evidence, problem: str) -> OutputComparison:
    if evidence.outcome is CallOutcome.FAILED and evidence.output.get("problem") == to_json(problem):
        return OutputComparison(
            ReproductionOutcome.REPRODUCED, f"it failed when it was recorded, and fails again: {problem}"
        )
    return _not_run(f"it could not be run again: {problem}")


def _as_recorded(result: ToolResult, tree: ScratchTree, context: ToolContext) -> ToolResult:
    """Return a result in recorded form: without secrets, with the project's own folder name."""
    clean = redacted(result, known=secrets_of(os.environ)).value
    return replace(clean, output=renamed(to_json(clean.output), str(tree.root), str(context.root)))


def _compared(issued: Certificate, installed: Tool, evidence: Evidence, result: ToolResult) -> OutputComparison:
    found = installed.comparing(to_json(evidence.output), result.output)
    if found.outcome is ReproductionOutcome.NOT_COMPARABLE:
        return found
    more = (*_read_otherwise(evidence, result), *_new_claims(issued, installed, evidence, result))
    if not more:
        return found
    every = (*found.differences, *more)
    return OutputComparison(
        ReproductionOutcome.DIFFERS, f"{every[0]}" + (f"; and {len(every) - 1} more" if len(every) > 1 else ""), every
    )


def _read_otherwise(evidence: Evidence, result: ToolResult) -> Iterator[OutputDifference]:
    before = {each.path: each.sha256 for each in evidence.examined}
    after = {each.path: each.sha256 for each in result.examined}
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            one, other = (each.get(path, "nothing") for each in (before, after))
            yield difference(f"examined[{path}]", one, other)


def _new_claims(
    issued: Certificate, installed: Tool, evidence: Evidence, result: ToolResult
) -> Iterator[OutputDifference]:
    """Yield diagnostics that are not on record. A recorded one that is missing shows in the output.

    The record does not tell whether a finding based on a piece of evidence came from its tool or from an agent. A tool
    with its own comparison thereby defines which differences count.
    """
    if installed.comparing is not compare_exactly:
        return
    known = {finding.claim.fingerprint for finding in issued.findings}
    known |= {mark for each in issued.evidence for mark in each.refutes}
    known |= {str(each) for each in evidence.output.get("claims") or () if isinstance(each, str)}
    for claim in result.claims:
        if claim.fingerprint not in known:
            yield difference("claims", "nothing", f"{claim.rule} at {claim.location}")


def _excuse(installed: Tool, evidence: Evidence, tree: ScratchTree) -> str:
    """Return an explanation of a difference other than a false record."""
    if installed.provider != evidence.provider:
        return f"its provider was {evidence.provider}, and {installed.provider} is installed"
    return tree.unknown


def _result(issued: Certificate, evidence: Evidence, ran: _Ran) -> ToolResult:
    found, again = ran.compared, ran.result
    output = {
        "outcome": found.outcome.value,
        "why": found.why,
        "certificate": issued.id,
        "evidence": evidence.id,
        "tool": evidence.tool,
        "arguments": dict(evidence.arguments),
        "commit": issued.revision.commit,
        "provider": {"recorded": evidence.provider, "again": ran.provider},
        "differences": [asdict(each) for each in found.differences[:_MOST_NAMED]],
        "intervals": [asdict(interval) for interval in found.intervals],
        "differing": len(found.differences),
        "again": dict(again.output)
        if again is not None and found.outcome is not ReproductionOutcome.REPRODUCED
        else {},
        "rerun": evidence.rerun,
    }
    summary = f"{evidence.tool} ({evidence.id}): {found.outcome}: {found.why}"
    if again is None:
        return ToolResult(summary, output)
    claim = _claim(issued, evidence, ran) if found.outcome is ReproductionOutcome.DIFFERS else None
    return ToolResult(summary, output, (claim,) if claim else (), again.examined, again.artifacts)


def _place(issued: Certificate, evidence: Evidence, tree: ScratchTree) -> _Place | None:
    """Return the line of a finding based on a piece of evidence, else the first line of a file it read."""
    for finding in issued.findings:
        at = finding.claim.location
        if evidence.id in finding.evidence and at.path in {each.path for each in evidence.examined}:
            return _Place(at, finding.claim.excerpt)
    for each in evidence.examined:
        lines = text_lines((tree.root / each.path).read_bytes().decode("utf-8", "replace"))
        line = next((number for number, text in enumerate(lines, 1) if text.strip()), 0)
        if line:
            return _Place(Location(each.path, line, 1, line), lines[line - 1])
    return None


def _claim(issued: Certificate, evidence: Evidence, ran: _Ran) -> Diagnostic | None:
    place, every = ran.place, ran.compared.differences
    if place is None:
        return None
    named = "; ".join(map(str, every[:3]))
    more = f"; and {len(every) - 3} more" if len(every) > 3 else ""  # noqa: PLR2004 - three fit
    return Diagnostic(
        rule=_RULE,
        name=_RULE_NAME,
        severity=Severity.CRITICAL,
        category=Category.CORRECTNESS,
        location=place.location,
        message=f"{evidence.tool} ({evidence.id}) differs when it is repeated: {named}{more}",
        remedy=f"do not rely on {issued.id}; run `{evidence.rerun}` and use its result",
        confidence=Confidence.HIGH,
        basis="the call was repeated",
        excerpt=place.excerpt,
        fingerprint=fingerprint(_RULE, place.location.path, evidence.id, 0),
    )
