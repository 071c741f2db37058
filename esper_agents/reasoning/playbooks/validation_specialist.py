"""The offline validation specialist: runs the evidence of a certificate again, and says what of it came out again.

Given code and no certificate, it inspects the code for the topics of a request for advice, such as reproducibility;
otherwise it asks those who own a part of a review, and says what they agree and differ on.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import CallTools, Conclude, Consult, ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Category
from esper_agents.domain.reproduction import EVIDENCE, REPRODUCE, ReproductionOutcome
from esper_agents.domain.status import QuestionType, Stance
from esper_agents.reasoning.code_inspection import inspection_calls
from esper_agents.reasoning.finding_ownership import COMPILER, MEMORY, NAN, REVIEWER
from esper_agents.reasoning.investigation import run
from esper_agents.reasoning.panel import conclusion, run_panel
from esper_agents.reasoning.static_specialist import SpecialistProfile, work
from esper_agents.reasoning.testing import testing_gaps, tests_to_run

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from esper_agents.domain.agent_action import Move, ToolReport
    from esper_agents.domain.frame import Brief

PANEL = (REVIEWER, COMPILER, MEMORY, NAN)
_SPECIALISM = SpecialistProfile(
    categories=(Category.CORRECTNESS, Category.SILENT_CORRECTNESS),
    searches=(),
    meanings={},
    measured=(("whether two runs agree", "python {path}"),),
    why_measure="only two runs on the same machine show whether they agree",
)
_TOOL = "reproduce-evidence"
_NAMED = 3
_ALL = "every piece of evidence came out again as it is on record"


def play(brief: Brief) -> Generator[Move, Any, Conclude]:
    """Run each piece of evidence again that the task names, or hear a panel; the policy says what that allows."""
    certificate = brief.task.options.get(REPRODUCE, "")
    evidence = brief.task.options.get(EVIDENCE, "").split()
    if not certificate or not evidence:
        if brief.task.kind is QuestionType.ADVICE and inspection_calls(brief):
            return (yield from work(brief, _SPECIALISM))
        members = [each for each in PANEL if each in brief.agents]
        if not brief.task.paths or brief.question or not members:
            return _undecided(brief)
        wanted = tests_to_run(brief, (), is_asked=False) if brief.task.change else ()
        ran = yield from run(brief, *wanted)
        question = f"what do you find in {', '.join(brief.task.paths)}?"
        heard = conclusion(brief, (yield from run_panel(brief, [Consult(member, question) for member in members])))
        # Rules that read the code again do not stand in for a judgement on what somebody else has claimed.
        mine = _undecided(brief)
        untested = tuple(testing_gaps(brief, (), ran)) if brief.task.change else ()
        return replace(heard, gaps=(*mine.gaps, *untested, *heard.gaps), next_steps=mine.next_steps)
    calls = tuple(ToolCall(_TOOL, {"certificate": certificate, "evidence": each}) for each in evidence)
    reports: tuple[ToolReport, ...] = yield CallTools(calls)
    return Conclude(
        summary=_summary(certificate, reports),
        rationale=_ALL if all(_outcome(report) is ReproductionOutcome.REPRODUCED for report in reports) else "",
        gaps=tuple(_gaps(reports)),
        caveats=(
            "It says whether the evidence comes out again, and not whether the verdict that rests on it is right.",
        ),
        next_steps=tuple(_next_steps(certificate, reports)),
    )


def _undecided(brief: Brief) -> Conclude:
    """Return the conclusion of who was asked to check something else than a certificate."""
    name, question = brief.agent.name, brief.question or brief.task.request
    return Conclude(
        summary=f"{name} runs the evidence of a certificate again when nobody else thinks for it, and was given none.",
        stance=Stance.UNDECIDED,
        below_ceiling=f"{name} needs a language model to judge this, and none was used",
        gaps=(
            InformationGap(
                what=f"the judgement of {name} on: {question}",
                why="no certificate was named, and no rule stands in for its judgement",
                command="esper certificates reproduce latest",
                blocks_approval=True,
            ),
        ),
        next_steps=(f"a person who knows {brief.agent.domain or 'the subject'} answers: {question}",),
    )


def _outcome(report: ToolReport) -> ReproductionOutcome | None:
    """Return how a piece of evidence came out; None where even that could not be found out."""
    if report.evidence.outcome is not CallOutcome.COMPLETED:
        return None
    return ReproductionOutcome(report.evidence.output["outcome"])


def _summary(certificate: str, reports: Sequence[ToolReport]) -> str:
    counts = Counter(_outcome(report) for report in reports)
    words = [f"{counts[each]} {each}" for each in ReproductionOutcome if counts[each]]
    words += [f"{counts[None]} failed"] if counts[None] else []
    pieces = "1 piece" if len(reports) == 1 else f"{len(reports)} pieces"
    worst = [report for report in reports if _outcome(report) is not ReproductionOutcome.REPRODUCED]
    worst.sort(key=lambda each: list(ReproductionOutcome).index(_outcome(each) or ReproductionOutcome.NOT_RUN))
    said = "".join(f" {each.evidence.summary}." for each in worst[:_NAMED])
    more = f" And {len(worst) - _NAMED} more." if len(worst) > _NAMED else ""
    return f"Of {pieces} of evidence of {certificate}: {', '.join(words)}.{said}{more}"


def _gaps(reports: Sequence[ToolReport]) -> Iterator[InformationGap]:
    for report in reports:
        output = report.evidence.output
        if _outcome(report) in {ReproductionOutcome.NOT_RUN, ReproductionOutcome.NOT_COMPARABLE}:
            what = f"whether {output['tool']} ({output['evidence']}) comes out as it is on record"
            yield InformationGap(what, str(output["why"]), str(output["rerun"]))
        elif _outcome(report) is None:
            yield InformationGap(
                "whether a piece of evidence can be had again", report.evidence.summary, _again(report)
            )


def _again(report: ToolReport) -> str:
    return f"esper certificates reproduce {quote(str(report.evidence.arguments['certificate']))}"


def _next_steps(certificate: str, reports: Sequence[ToolReport]) -> Iterator[str]:
    if any(_outcome(report) is ReproductionOutcome.DIFFERS for report in reports):
        yield f'esper certificates revoke {certificate} --reason "its evidence does not come out again"'
