"""Compare a candidate with a baseline: equivalence, and the claimed speed-up."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.errors import UsageError
from esper_agents.paths import PUBLISHED
from esper_agents.tools import measurement_comparison
from esper_agents.tools.measurement_tools import claim, command, definition, measure, outlined, spec, trimmed
from esper_agents.tools.tool import ToolContext, ToolResult, tool
from esper_agents.torchlab import measurement_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.finding import Diagnostic
    from esper_agents.torchlab.compare.change_control import BaseRevision

_MODES = ("latency", "throughput", "training-step")
_WITNESSES = ("the process's own clock", "the parent's clock", "the kernel's processor time")


def _rerun(arguments: JsonObject) -> str:
    targets = [str(each) for each in (arguments["baseline"], arguments["candidate"]) if each]
    return command(
        "compare",
        *dict.fromkeys(targets),
        base=arguments.get("base"),
        input=arguments.get("inputs"),
        inputs=arguments.get("inputs_from"),
        train=arguments.get("mode") == "training-step",
        throughput=arguments.get("mode") == "throughput",
        claim=arguments.get("claim"),
        flag=arguments.get("flag"),
    )


@tool("torch-compare", risk=Risk.LOW, repeatable=True, rerun=_rerun, comparing=measurement_comparison.comparison)
async def torch_compare(  # noqa: PLR0913 - one for each input of a comparison
    context: ToolContext,
    baseline: str,
    candidate: str,
    *,
    base: str = "",
    inputs: list[str] | None = None,
    inputs_from: str = "",
    mode: str = "latency",
    claim: str = "",
    flag: str = "",
) -> ToolResult:
    """Check in the sandbox that a candidate is equivalent to a baseline, then time both and judge a claimed speed-up.

    Args:
        context: The project.
        baseline: `FILE.py:NAME` of the existing code.
        candidate: `FILE.py:NAME` of the code that claims to be equivalent and faster.
        base: Git revision of the baseline; the work tree if omitted.
        inputs: Inputs such as `randn(32,128)`; if omitted, those that the files make themselves.
        inputs_from: `FILE:FUNCTION` that makes the inputs.
        mode: `latency`, `throughput` or `training-step`.
        claim: The claimed speed-up, such as `1.3`; if omitted, the threshold of the acceptance rules.
        flag: Feature flag that disables the candidate.
    """
    from esper_agents.torchlab.compare.change_control import ChangeControl
    from esper_agents.torchlab.compare.compare import ComparisonMode, ComparisonRequest, compare
    from esper_agents.torchlab.compare.measure import Arm

    if mode not in _MODES:
        raise UsageError(f"invalid mode {mode!r}", remedy="use one of " + ", ".join(_MODES))
    question = ComparisonRequest(mode=ComparisonMode(mode), claim=_number(claim))
    with ExitStack() as stack:
        found = _base(context, base, candidate, stack) if base else None
        root = found.root if found else context.root
        arms = (Arm(spec(baseline, inputs, inputs_from), root), Arm(spec(candidate, inputs, inputs_from), context.root))
        governance = ChangeControl(base=found, flag=flag)
        files = [candidate, inputs_from, *([] if found else [baseline])]
        made = await measure(
            context,
            files,
            lambda lab: compare(lab, *arms, question, governance=governance),
            roots=[root] if found else [],
        )
    result = made.report.result
    verdict: JsonObject = result["verdict"]
    output = outlined(
        made.report,
        outcome=verdict["outcome"],
        verdict=trimmed(verdict),
        governance=trimmed(result["governance"]),
        threshold=result["threshold"],
        only=("plan", "checks", "error", "timed_ns", "beside", "missing"),
        witnesses=list(_WITNESSES if "speedup" in verdict else _WITNESSES[:1]),
    )
    names = f"{candidate} against {baseline}{f' at {base}' if base else ''}"
    claims = tuple(_claims(context, candidate, names, verdict))
    return ToolResult(f"{names}: {_said(verdict)}", output, claims, made.examined, made.artifacts)


def _number(text: str) -> float | None:
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 1 <= number <= 1e6:  # noqa: PLR2004 - larger values are not plausible speed-ups
        raise UsageError(f"invalid speed-up {text!r}", remedy="give a number such as 1.3: baseline over candidate")
    return number


def _base(context: ToolContext, base: str, candidate: str, stack: ExitStack) -> BaseRevision:
    """Yield the project at a revision, in a separate folder, and the files that differ from it."""
    from esper_agents.git.changed_files import changed
    from esper_agents.git.revisions import checkout
    from esper_agents.torchlab.compare.change_control import BaseRevision

    folder = Path(stack.enter_context(TemporaryDirectory(prefix="esper-base-")))
    found = checkout(context.root, base, folder / "base")
    file = candidate.rpartition(":")[0]
    differ = changed(context.root, found.commit, target_file=file, apart_from=[PUBLISHED])
    return BaseRevision(found.root, found.commit, differ.is_target_changed, differ.others)


def _because(verdict: JsonObject) -> str:
    first, *more = verdict["because"]
    return f"{first}; and {len(more)} more" if len(more) > 1 else "; ".join((first, *more))


def _said(verdict: JsonObject) -> str:
    because = _because(verdict)
    if "speedup" not in verdict:
        return f"{verdict['outcome']}: {because}"
    speedup = verdict["speedup"]
    interval = f"{speedup['estimate']:.4g}x, {speedup['lower']:.4g}x to {speedup['upper']:.4g}x"
    return f"{verdict['outcome']} ({interval} over {verdict['replicates']} replicates): {because}"


def _claims(context: ToolContext, candidate: str, names: str, verdict: JsonObject) -> Iterator[Diagnostic]:
    because = _because(verdict)
    place = definition(context, candidate)
    made = None
    if verdict["outcome"] == "wrong":
        made = claim(
            context,
            measurement_codes.CANDIDATE_WRONG,
            place,
            f"{names} is not equivalent: {because}",
            remedy="do not use it; fix the failed check, and compare again",
            witnesses=["the check that failed"],
        )
    elif verdict["outcome"] == "not as fast as claimed":
        made = claim(
            context,
            measurement_codes.NOT_AS_FAST,
            place,
            f"{names} is not as fast as claimed: {because}",
            remedy="keep the baseline",
            witnesses=list(_WITNESSES),
        )
    if made is not None:
        yield made
