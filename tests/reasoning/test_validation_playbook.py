"""What the validation specialist concludes from evidence that was run again, in real sessions."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import briefs
import pytest
from toys import calls

from esper_agents.archive.verification.statement import verify_statement
from esper_agents.certificates.check import CheckOutcome
from esper_agents.certificates.policy.verdict_ceiling import policy_text
from esper_agents.certificates.statement import parse
from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.evidence import Risk, source_file
from esper_agents.domain.relation import Relation, RelationKind
from esper_agents.domain.reproduction import EVIDENCE, REPRODUCE, ReproductionOutcome
from esper_agents.domain.status import QuestionType, Status
from esper_agents.domain.task import Task
from esper_agents.errors import ExitCode, UsageError
from esper_agents.reasoning.playbooks import validation_specialist
from esper_agents.requests.parsing import parse_request
from esper_agents.tools.tool import Tool, ToolContext, ToolResult

pytestmark = pytest.mark.anyio
AGENT = "validation-specialist"


def counting(name, *, reads=True, step=0, **options):
    """Return a tool that tells a number, another one with every call where there is a step."""
    numbers = count(0, step)

    async def run(context: ToolContext) -> ToolResult:
        """Count."""
        data = (context.root / "train.py").read_bytes()
        return ToolResult("counted", {"n": next(numbers)}, examined=(source_file("train.py", data),) if reads else ())

    given = {"risk": Risk.LOW, "is_repeatable": True, "provider": "toys 1", **options}
    return Tool(name, function=run, rerun=lambda _: f"count --as {name}", **given)


async def reproduced(toybox, *tools, then=lambda: None):
    """Certify calls of tools, have the certificate's evidence run again, and return both certificates and the exit."""

    def play(_brief):
        yield calls(*(tool.name for tool in tools))
        return Conclude("done")

    toybox.tools[:] = tools
    toybox.agent("worker", play)
    first = (await toybox.run("worker")).certificate
    then()
    async with toybox.open() as opened:
        outcome = await (await opened.tasks.submit(await opened.tasks.reproduction(first.id))).run()
        return first, await opened.certificates.read(outcome.certificate.id), outcome.exit_code


def outcomes(certificate):
    return [each.output["outcome"] for each in certificate.evidence]


async def test_all_that_comes_out_again_is_approved_on_condition_and_depends_on_what_it_checked(toybox):
    first, second, code = await reproduced(toybox, counting("one"), counting("two"))
    assert outcomes(second) == [ReproductionOutcome.REPRODUCED] * 2
    assert (second.verdict.status, code, second.agent) == (Status.CONDITIONALLY_APPROVED, ExitCode.DONE, AGENT)
    assert second.verdict.rationale == "every piece of evidence came out again as it is on record"
    assert second.component == f"evidence_of_{first.id[-12:]}"
    async with toybox.open() as opened:
        entry = await opened.certificates.get(first.id)
    assert second.relations == (Relation(RelationKind.DEPENDS_ON, first.id, entry.sha256),)
    assert (second.revision, second.examined) == (first.revision, first.examined)
    assert second.task.options == {REPRODUCE: first.id, EVIDENCE: " ".join(each.id for each in first.evidence)}


async def test_one_that_differs_stands_against_the_rest(toybox):
    first, second, code = await reproduced(toybox, counting("same"), counting("grows", step=5))
    assert outcomes(second) == [ReproductionOutcome.REPRODUCED, ReproductionOutcome.DIFFERS]
    assert (second.verdict.status, code) == (Status.REQUIRES_REMEDIATION, ExitCode.AGAINST)
    (finding,) = second.findings
    assert "output.n: recorded 0, now 5 (by +5)" in finding.claim.message
    assert finding.claim.name == "evidence-differs"
    assert second.next_steps == (
        f'esper certificates revoke {first.id} --reason "its evidence does not come out again"',
    )
    assert "1 differs, 1 reproduced" in second.summary


async def test_one_that_may_not_be_run_is_a_condition_with_the_command_that_runs_it(toybox):
    _, second, code = await reproduced(toybox, counting("same"), counting("once", is_repeatable=False))
    assert outcomes(second) == [ReproductionOutcome.REPRODUCED, ReproductionOutcome.NOT_RUN]
    assert (second.verdict.status, code) == (Status.CONDITIONALLY_APPROVED, ExitCode.DONE)
    assert [(gap.why, gap.command) for gap in second.gaps] == [("the tool is not repeatable", "count --as once")]


async def test_where_nothing_that_read_a_file_was_run_again_nothing_is_decided(toybox):
    _, second, code = await reproduced(toybox, counting("blind", reads=False), counting("once", is_repeatable=False))
    assert outcomes(second) == [ReproductionOutcome.REPRODUCED, ReproductionOutcome.NOT_RUN]
    assert (second.verdict.status, code) == (Status.NEEDS_FURTHER_REVIEW, ExitCode.UNDECIDED)


async def test_one_that_cannot_be_compared_leaves_it_undecided(toybox):
    grows = counting("grows", step=5)
    newer = replace(grows, provider="toys 2")
    tools = counting("same"), grows
    _, second, code = await reproduced(toybox, *tools, then=lambda: toybox.tools.__setitem__(1, newer))
    assert outcomes(second) == [ReproductionOutcome.REPRODUCED, ReproductionOutcome.NOT_COMPARABLE]
    assert (second.verdict.status, code) == (Status.NEEDS_FURTHER_REVIEW, ExitCode.UNDECIDED)


async def test_the_verdict_is_derived_again_from_the_record(toybox):
    _, second, _ = await reproduced(toybox, counting("same"), counting("grows", step=5))
    async with toybox.open() as opened:
        data = await opened.certificates.record(second.id)
        assert parse(data) == second
        assert {each.outcome for each in verify_statement(data, policy_text())} == {CheckOutcome.HOLDS}


async def test_a_certificate_without_evidence_is_refused(toybox):
    def play(_brief):
        yield from ()
        return Conclude("thought about it")

    toybox.agent("thinker", play)
    first = (await toybox.run("thinker")).certificate
    async with toybox.open() as opened:
        with pytest.raises(UsageError, match="has no evidence that can be re-run"):
            await opened.tasks.reproduction(first.id)


async def test_without_a_certificate_it_judges_nothing(toybox):
    ran = await toybox.run(AGENT, request="verify the numbers in this report")
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert ran.certificate.gaps[0].blocks_approval


def test_a_question_on_a_topic_is_answered_from_the_code_and_not_by_a_panel():
    task = Task("x", ("train.py",), QuestionType.ADVICE, "")
    tools = (replace(briefs.LOOK, name="inspect-code"),)
    request = parse_request("numbers differ each time i train, how do i make it deterministic?")
    brief = briefs.brief(task=task, tools=tools, request=request)
    (first,) = [next(validation_specialist.play(brief))]
    assert first.calls[-1].tool == "inspect-code"
    assert "reproducibility" in first.calls[-1].arguments["topics"]
