"""Run review findings that a run can test: each is confirmed, refuted or left unchanged."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.domain.finding import Confidence
from esper_agents.errors import UsageError
from esper_agents.review.catalogue import catalogue
from esper_agents.review.engine import review
from esper_agents.review.rule import RuntimeExpectation
from esper_agents.tools import measurement_comparison
from esper_agents.tools.measurement_tools import command, measure, outlined, spec
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.tools.measurement_tools import MeasurementResult
    from esper_agents.torchlab.measurements.explain import ExplainResult
    from esper_agents.torchlab.worker.watch.result import WatchedLine, WatchResult

_SEEN_BY = "a trace of the line"
# A line that runs this often in one call is inside a loop.
_REPEATED = 2
_SIZE = re.compile(r"\d+")
_LONGEST_SAID = 300


class ConfirmationResult(StrEnum):
    """Result of a run for a finding."""

    BORNE_OUT = "borne out"
    REFUTED = "refuted"
    UNSETTLED = "unsettled"


@dataclass(frozen=True, slots=True)
class ConfirmedClaim:
    """One finding and the result of the run for it.

    Attributes:
        claim: The finding.
        found: The result.
        said: The reason, in words.
    """

    claim: Diagnostic
    found: ConfirmationResult
    said: str

    def described(self) -> JsonObject:
        """Return it in the form of evidence."""
        return {
            "rule": self.claim.rule,
            "fingerprint": self.claim.fingerprint,
            "location": str(self.claim.location),
            "found": self.found.value,
            "said": self.said,
        }


def _rerun(arguments: JsonObject) -> str:
    # The lines to watch follow from the review; this command shows which lines run and which raise.
    reviewed = "esper review -- " + " ".join(quote(str(each)) for each in arguments["paths"])
    lines = [str(each) for each in arguments.get("lines", ())]
    run = command(
        "watch",
        str(arguments["target"]),
        input=arguments.get("inputs"),
        inputs=arguments.get("inputs_from"),
        train=bool(arguments.get("train")),
        line=lines,
    )
    return run if lines else reviewed


@tool("torch-confirm", risk=Risk.LOW, repeatable=True, rerun=_rerun, comparing=measurement_comparison.measured)
async def torch_confirm(
    context: ToolContext,
    target: str,
    paths: list[str],
    lines: list[str],
    *,
    inputs: list[str] | None = None,
    inputs_from: str = "",
    train: bool = False,
) -> ToolResult:
    """Run a target in the sandbox and test lint findings about its lines.

    The review is repeated here, so callers cannot supply their own findings. A finding that a line raises is refuted if
    the line ran and did not raise; one that a line breaks a graph, if it ran compiled without a break.

    Args:
        context: The project.
        target: `FILE.py:NAME` or `package.module:Class.method`.
        paths: Reviewed files, relative to the project.
        lines: `FILE:LINE` of the findings to test.
        inputs: Inputs such as `randn(32,128)`; if omitted, those that the target's file makes itself.
        inputs_from: `FILE:FUNCTION` that makes the inputs.
        train: Also run backward.
    """
    from esper_agents.torchlab.measurements import explain, watch

    rules = {each.code: each.shown for each in catalogue(context.rules)}
    report = await asyncio.to_thread(
        review, context.root, [context.inside(path) for path in paths], extra=context.rules
    )
    claims = [
        claim
        for claim in report.claims
        if str(claim.location) in lines and rules[claim.rule] is not RuntimeExpectation.NOT
    ]
    if not claims:
        raise UsageError(
            "the review has no finding on these lines that a run can test", remedy="name lines of findings"
        )
    wanted = spec(target, inputs, inputs_from)
    lines_of = (claim.location for claim in claims)
    options = watch.WatchOptions(
        tuple(watch.LineRange(at.path, at.line, max(at.end_line, at.line)) for at in lines_of), train=train
    )
    watched = await measure(context, [target, inputs_from], lambda lab: watch.run(lab, wanted, options, None))
    made, compiled = [watched], None
    if any(rules[claim.rule] is RuntimeExpectation.BREAKS for claim in claims):
        compiling = explain.ExplainOptions(train)
        made.append(
            await measure(context, [target, inputs_from], lambda lab: explain.run(lab, wanted, compiling, None))
        )
        compiled = explain.MEASUREMENT.parsed(made[-1].report)
    seen = watch.MEASUREMENT.parsed(watched.report)
    return _result(target, [_settle(claim, rules[claim.rule], seen, compiled) for claim in claims], made)


def _result(target: str, settled: list[ConfirmedClaim], made: list[MeasurementResult]) -> ToolResult:
    counts = [f"{sum(each.found is found for each in settled)} {found.value}" for found in ConfirmationResult]
    output = outlined(
        made[0].report,
        status=", ".join(counts),
        settled=[each.described() for each in settled],
        witnesses=[_SEEN_BY],
    )
    borne_out = tuple(_surer(each, target) for each in settled if each.found is ConfirmationResult.BORNE_OUT)
    examined = {each.path: each for measured in made for each in measured.examined}
    return ToolResult(
        f"{target}: of {len(settled)} claims {', '.join(counts)}",
        output,
        borne_out,
        tuple(examined[path] for path in sorted(examined)),
        tuple(artifact for measured in made for artifact in measured.artifacts),
        tuple(each.claim.fingerprint for each in settled if each.found is ConfirmationResult.REFUTED),
    )


def _surer(settled: ConfirmedClaim, target: str) -> Diagnostic:
    basis = f"{settled.claim.basis}; confirmed by a run of {target}: {settled.said}"
    return replace(settled.claim, confidence=Confidence.HIGH, basis=basis)


def _settle(
    claim: Diagnostic, shown: RuntimeExpectation, watched: WatchResult, compiled: ExplainResult | None
) -> ConfirmedClaim:
    at = claim.location
    place = (at.path, at.line, max(at.end_line, at.line))
    line = next(each for each in watched.lines if (each.file, each.line, each.end_line) == place)
    said = f"it {line.said}"
    match shown:
        case RuntimeExpectation.RAISES:
            return _raising(claim, line, watched)
        case RuntimeExpectation.REPEATS:
            often = line.times >= _REPEATED * watched.calls
            return ConfirmedClaim(claim, ConfirmationResult.BORNE_OUT if often else ConfirmationResult.UNSETTLED, said)
        case RuntimeExpectation.BREAKS:
            return _breaking(claim, line, compiled)
        case RuntimeExpectation.NOT:
            return ConfirmedClaim(claim, ConfirmationResult.UNSETTLED, "no run can test it")


def _raising(claim: Diagnostic, line: WatchedLine, watched: WatchResult) -> ConfirmedClaim:
    raised, said = watched.raised, f"it {line.said}"
    if raised is not None and raised.is_raised_at(line):
        return ConfirmedClaim(claim, ConfirmationResult.BORNE_OUT, said)
    if raised is not None and _says_the_same(claim, raised.message):
        # A layer's construction lies elsewhere than the call of it that raises.
        where = f"{raised.frames[-1].file}:{raised.frames[-1].line}" if raised.frames else "torch:0"
        said = f"the run raises {raised.type} at {where}: {raised.message}"
        return ConfirmedClaim(claim, ConfirmationResult.BORNE_OUT, said[:_LONGEST_SAID])
    # An exception before the end may have prevented the line from running as intended.
    is_refuted = line.times > 0 and raised is None
    return ConfirmedClaim(claim, ConfirmationResult.REFUTED if is_refuted else ConfirmationResult.UNSETTLED, said)


def _says_the_same(claim: Diagnostic, message: str) -> bool:
    """Return whether an exception names all sizes that a finding names, at least two."""
    sizes = set(_SIZE.findall(claim.message))
    return len(sizes) > 1 and sizes <= set(_SIZE.findall(message))


def _breaking(claim: Diagnostic, line: WatchedLine, compiled: ExplainResult | None) -> ConfirmedClaim:
    places = [each.at for each in (compiled and compiled.breaks) or ()]
    if any(file == line.file and line.line <= number <= line.end_line for file, number in places):
        return ConfirmedClaim(claim, ConfirmationResult.BORNE_OUT, "torch.compile breaks the graph there")
    if compiled is not None and compiled.status == "clean" and line.times:
        return ConfirmedClaim(
            claim, ConfirmationResult.REFUTED, "it ran, and torch.compile made one graph of the whole"
        )
    return ConfirmedClaim(claim, ConfirmationResult.UNSETTLED, f"it {line.said}, and no break was seen there")
