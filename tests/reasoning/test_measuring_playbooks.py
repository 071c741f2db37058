"""One real run of each playbook that measures: real workers, a real ledger, and the same moves when it is replayed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from torch_toys import FILES, SIZE, anyio_backend, bench, needs_torch, write  # noqa: F401 - fixtures

from esper_agents.api import open_project
from esper_agents.archive.verification.statement import CheckOutcome, verify_statement
from esper_agents.certificates.policy.verdict_ceiling import policy_text
from esper_agents.certificates.statement import statement
from esper_agents.domain.agent_action import Move
from esper_agents.domain.assumption import AssumptionState
from esper_agents.domain.codec import encode
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Confidence
from esper_agents.domain.memory import NoteKind
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Status
from esper_agents.git.find_project import find_project
from esper_agents.orchestration.frame_start import brief_of
from esper_agents.orchestration.project_services import ProjectServices
from esper_agents.paths import project_home
from esper_agents.reasoning.target_choice import NONE_OF_THEM

pytestmark = [pytest.mark.anyio, needs_torch]
ENGINEER = "pytorch-ultimate-performance-engineer"
TWO_STEPS = (
    FILES["growing.py"] + "\n\n" + FILES["growing.py"].partition("\n\n\n")[2].replace("make_step", "make_other_step")
)
SLOW_STEP = """import time
import torch


def make_step():
    seen = []

    def step():
        time.sleep(0.15)
        seen.append(1)
        return torch.log(torch.zeros(3) if len(seen) > 4 else torch.ones(3)).sum()

    return step
"""
PAIRWISE = """import torch


def pairwise(queries, keys):
    return (queries[:, None] - keys[None]).abs().sum(-1)
"""
TRACKER = """import torch
from torch import nn


class Tracker(nn.Module):
    def __init__(self, width, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("center", torch.zeros(width))

    def forward(self, x):
        if self.training:
            self.center.lerp_(x.mean(0), self.momentum)
        return x - self.center
"""
OLD_OPS = FILES["ops.py"].replace("return x * 30", "return slow(x)")


@pytest.fixture(scope="module")
def lab_project(tmp_path_factory):
    """Return a project under git; in its second commit `ops.py:fast` became fast, and another file changed as well."""
    folder = write(
        tmp_path_factory.mktemp("lab-project"),
        {**FILES, "ops.py": OLD_OPS, "pairwise.py": PAIRWISE, "tracker.py": TRACKER},
    )
    quiet = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    person = ("-c", "user.name=Test", "-c", "user.email=test@example.org")

    def git(*arguments):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True, env=quiet)

    git("init", "-q", "-b", "main", "--template=")
    git("add", "-A")
    git(*person, "commit", "-qm", "first")
    write(
        folder,
        {
            "ops.py": FILES["ops.py"],
            "slow.py": SLOW_STEP,
            "two.py": TWO_STEPS,
            "bare.py": "import torch\n\n\ndef main():\n    pass\n",
        },
    )
    git("add", "-A")
    git(*person, "commit", "-qm", "second")
    return folder


@pytest.fixture
def opening(lab_project, bench, migrated_sqlite, monkeypatch):  # noqa: F811 - fixtures
    """Open the project with the module's warm lab."""
    monkeypatch.setattr(ProjectServices, "bench", property(lambda _: bench))
    place = project_home(find_project([lab_project], lab_project).key)
    place.mkdir(parents=True, mode=0o700)
    shutil.copy(migrated_sqlite, place / "esper.db")
    return lambda: open_project(lab_project, publish=False)


async def replayed(opened, session):
    """Play every frame of a session again from its record, and check that each move is the recorded one."""
    history = await opened.sessions.history(session)
    run = SimpleNamespace(history=history, services=opened.services)
    for frame in history.frames:
        reasoner = opened.services.reasoner(frame.opened.agent.name).build(brief_of(run, frame))
        for number, turn in enumerate(frame.settled):
            move = (await reasoner.next_move(frame.settled[:number], lambda _: None)).move
            assert encode(move, Move) == encode(turn.move, Move)


@pytest.fixture
def judged(opening, lab_project):
    """Submit a task, run it, replay it, check its certificate, and return that."""

    async def run(request, *paths, agent=""):
        async with opening() as opened:
            task = opened.tasks.create(request, [lab_project / path for path in paths], agent=agent)
            outcome = await (await opened.tasks.submit(task)).run()
            assert outcome.state is SessionState.DONE
            await replayed(opened, outcome.session)
            certificate = await opened.certificates.read(outcome.certificate.id)
            checks = verify_statement(statement(certificate), policy_text())
            assert {check.outcome for check in checks} == {CheckOutcome.HOLDS}
            certificate_notes.append(await opened.memory.list(agent=certificate.agent))
            return certificate

    certificate_notes = run.__dict__.setdefault("notes", [])
    return run


def findings(certificate, prefix="LAB"):
    return {
        (finding.claim.rule, str(finding.claim.location)): finding
        for finding in certificate.findings
        if finding.claim.rule.startswith(prefix)
    }


def tools_of(certificate, finding):
    return {each.tool for each in certificate.evidence if each.id in finding.evidence}


def states(certificate):
    return {assumption.text: assumption.state for assumption in certificate.assumptions}


@pytest.mark.slow
async def test_the_compiler_expert_says_where_it_breaks_and_what_would_not_export(judged):
    certificate = await judged("why does torch.compile break here?", "model.py")
    assert (certificate.agent, certificate.verdict.status) == ("pytorch-expert", Status.ADVISORY_ONLY)
    broken = findings(certificate)["LAB201", "model.py:12"]
    assert broken.claim.confidence is Confidence.HIGH
    assert states(certificate)["torch.compile makes one graph of model.py:Net"] is AssumptionState.REFUTED
    assert {each.tool for each in certificate.evidence} >= {"torch-targets", "torch-explain", "torch-export"}
    assert any("torch.where" in next_step for next_step in certificate.next_steps)


async def test_the_nan_debugger_joins_what_was_read_with_what_was_run(judged):
    certificate = await judged("my loss is NaN", "losses.py")
    assert (certificate.agent, certificate.verdict.status) == ("nan-debugger", Status.ADVISORY_ONLY)
    first = findings(certificate)["LAB501", "losses.py:8"]
    assert first.claim.confidence is Confidence.HIGH
    assert tools_of(certificate, first) == {"torch-nan", "static-review"}
    assert "confirmed by static-review, torch-nan" in first.claim.basis
    assert set(states(certificate).values()) == {AssumptionState.CONFIRMED}


@pytest.mark.slow
async def test_a_run_that_stays_finite_leaves_a_reported_nan_undecided(judged):
    certificate = await judged("my loss is NaN", "growing.py", agent="nan-debugger")
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert any(gap.blocks_approval and "--inputs" in gap.command for gap in certificate.gaps)
    assert [each.arguments["steps"] for each in certificate.evidence if each.tool == "torch-nan"] == [20, 100]


@pytest.mark.slow
async def test_a_question_about_memory_is_answered_by_its_growth_with_the_batch(judged):
    certificate = await judged("pairwise in pairwise.py goes OOM at batch 4096, why?", "pairwise.py")
    first, *_ = certificate.summary.split(". ")
    assert first.startswith("The peak of `pairwise` grows with the square of the batch: ")
    assert first.endswith("for batches of 64, 128, 256, reached at pairwise.py:5")
    assert "Estimate for a batch of 4,096: " in certificate.summary


@pytest.mark.slow
async def test_a_question_about_behaviour_is_answered_by_calls_with_the_arguments_that_it_writes(judged):
    certificate = await judged("does Tracker(width=12) change its center in eval mode? input (4, 12)", "tracker.py")
    assert certificate.summary.startswith(
        "Calls of `Tracker` show: a forward pass changes `center` in training mode only; "
        "in evaluation mode it changes no parameter, buffer or attribute"
    )
    (observed,) = [each for each in certificate.evidence if each.tool == "torch-behaviour"]
    assert observed.output["result"]["inputs"][0]["shape"] == [4, 12]


@pytest.mark.slow
async def test_the_memory_diagnostician_names_what_holds_it_and_runs_longer_to_refute_that(judged):
    certificate = await judged("memory grows in every step, is it a leak?", "growing.py")
    assert certificate.agent == "memory-diagnostician"
    grows = next(each for (rule, _), each in findings(certificate).items() if rule == "LAB401")
    assert (grows.claim.confidence, grows.claim.excerpt.strip()) == (Confidence.HIGH, "kept.append(loss)")
    assert [each.arguments["steps"] for each in certificate.evidence if each.tool == "torch-memory"] == [8, 16]
    text = "growing.py:make_step grows by 4 bytes a step, however many steps are made"
    assert states(certificate)[text] is AssumptionState.CONFIRMED
    assert "What holds it: kept at growing.py" in certificate.summary


@pytest.mark.slow
async def test_the_profiler_hands_a_broken_graph_to_the_expert_and_concludes_on_the_whole(judged):
    certificate = await judged("where does the time go?", "compiled.py", agent="profiler")
    assert [(handoff.sender, handoff.receiver) for handoff in certificate.handoffs] == [
        ("profiler", "pytorch-expert"),
        ("pytorch-expert", "profiler"),
    ]
    assert certificate.agent == "profiler"
    broken = findings(certificate)["LAB201", "compiled.py:7"]
    assert broken.claim.confidence is Confidence.HIGH
    # What the profiler had measured, the expert did not measure again.
    assert [each.rerun for each in certificate.evidence].count("esper torch explain compiled.py:make_step") == 1
    assert {each.tool for each in certificate.evidence} >= {"torch-profile", "torch-explain"}


@pytest.mark.slow
async def test_the_kernel_specialist_says_what_binds_and_certifies_nothing(judged):
    request = f"speed up ops.py:slow on {SIZE}"
    certificate = await judged(request, "ops.py", agent="torch-specialist")
    assert (certificate.agent, certificate.verdict.status) == ("torch-specialist", Status.ADVISORY_ONLY)
    tools = {each.tool for each in certificate.evidence if each.outcome is CallOutcome.COMPLETED}
    assert tools >= {"torch-profile", "torch-explain", "torch-memory"}
    assert "Costliest: aten::add" in certificate.summary
    assert any("at most" in next_step and "check against eager" in next_step for next_step in certificate.next_steps)
    assert any("certifies" in gap.why for gap in certificate.gaps)


@pytest.mark.slow
async def test_a_claimed_speed_up_goes_to_the_engineer_who_recommends_what_is_as_fast_as_claimed(judged):
    request = f"is ops.py:fast 1.5x faster than ops.py:slow on {SIZE}?"
    certificate = await judged(request, "ops.py", agent="torch-specialist")
    assert [handoff.receiver for handoff in certificate.handoffs] == [ENGINEER]
    assert (certificate.agent, certificate.verdict.status) == (ENGINEER, Status.RECOMMEND)
    tools = {each.tool for each in certificate.evidence}
    assert tools >= {"torch-compare", "torch-profile", "torch-explain"}
    assert set(states(certificate).values()) == {AssumptionState.CONFIRMED}
    (notes,) = judged.notes
    decision = next(note.text for note in notes if note.kind is NoteKind.DECISION)
    assert "RECOMMEND for ops" in decision
    assert "Measured: ops.py:fast against ops.py:slow: faster as claimed (" in decision


async def test_a_fast_wrong_answer_is_not_recommended_and_the_check_is_named(judged):
    certificate = await judged(f"is ops.py:wrong faster than ops.py:slow on {SIZE}?", "ops.py")
    assert (certificate.agent, certificate.verdict.status) == (ENGINEER, Status.DO_NOT_RECOMMEND)
    assert "values on plain 1" in findings(certificate)["LAB101", "ops.py:15"].claim.message
    # A fast wrong answer has no speed: nothing else was measured.
    assert [each.tool for each in certificate.evidence if each.artifacts] == ["torch-compare"]


@pytest.mark.slow
async def test_against_a_revision_the_engineer_says_what_else_differs_and_how_to_go_back(judged):
    request = f"is ops.py:fast faster since HEAD~1 on {SIZE}?"
    certificate = await judged(request, "ops.py", agent=ENGINEER)
    assert certificate.verdict.status is Status.RECOMMEND
    assert certificate.verdict.conditions
    text = "nothing differs between the two revisions but the file of the target"
    assert states(certificate)[text] is AssumptionState.REFUTED
    (caveat,) = [each for each in certificate.caveats if "differ as well" in each]
    assert "(bare.py, slow.py, two.py)" in caveat
    assert any(next_step.startswith("keep a way back: git revert to ") for next_step in certificate.next_steps)
    assert certificate.risks.reversibility == "Easy"


@pytest.mark.slow
async def test_a_person_is_asked_which_of_several_is_meant_and_the_answer_is_run(opening, lab_project):
    async with opening() as opened:
        task = opened.tasks.create("my loss is NaN", [lab_project / "two.py"], agent="nan-debugger")
        outcome = await (await opened.tasks.submit(task)).run()
        assert outcome.state is SessionState.WAITING
        (question,) = outcome.questions
        assert question.options == ("two.py:make_step", "two.py:make_other_step", NONE_OF_THEM)
        outcome = await (await opened.approvals.answer(outcome.session, "two.py:make_other_step")).run()
        certificate = await opened.certificates.read(outcome.certificate.id)
        await replayed(opened, outcome.session)
    ran = [each.arguments["target"] for each in certificate.evidence if each.tool == "torch-nan"]
    assert ran == ["two.py:make_other_step"] * 2


async def test_where_nothing_can_be_run_and_reading_says_nothing_it_is_undecided_and_says_what_to_give(judged):
    certificate = await judged("why does torch.compile break here?", "bare.py", agent="pytorch-expert")
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert not any(each.artifacts for each in certificate.evidence)
    (gap,) = [each for each in certificate.gaps if each.blocks_approval]
    assert "a function without arguments" in gap.what
    assert gap.command.startswith("esper submit ")


async def test_where_inputs_are_missing_they_are_made_and_the_certificate_says_so(judged):
    certificate = await judged("why does torch.compile break in ops.py:slow?", "ops.py", agent="pytorch-expert")
    harness = ".esper/harness/ops_slow.py:make"
    runs = [each for each in certificate.evidence if each.arguments.get("target") == harness]
    assert runs
    assert all(run.output["synthetic"] is True for run in runs)
    assert not any(file.path.startswith(".esper/") for each in certificate.evidence for file in each.examined)
    assert "ops.py:slow with arguments made by the program (synthetic)" in certificate.summary
    assert any("inputs were synthetic" in caveat for caveat in certificate.caveats)


async def test_where_no_sandbox_holds_the_reading_is_done_and_what_was_not_measured_is_said(judged, monkeypatch):
    from esper_agents.errors import EvidenceError
    from esper_agents.tools.lab_pool import LabPool

    async def refused(_self, _roots):
        raise EvidenceError("no sandbox works here", remedy="install bubblewrap")

    monkeypatch.setattr(LabPool, "_opened", refused)
    monkeypatch.setattr(ProjectServices, "bench", property(lambda found: LabPool(found.project.root)))
    certificate = await judged("my loss is NaN", "losses.py")
    assert certificate.verdict.status is Status.ADVISORY_ONLY
    assert set(findings(certificate, "ESP"))
    assert not findings(certificate)
    assert any(gap.why == "no sandbox works here" for gap in certificate.gaps)
    assert "Nothing was measured" in certificate.summary


@pytest.mark.slow
async def test_what_died_in_the_middle_of_a_measurement_goes_on_with_the_same_moves(opening, lab_project, bench):  # noqa: F811 - a fixture
    async def forked():
        return bench._lab._count if bench._lab is not None else 0

    async with opening() as opened:
        task = opened.tasks.create("my loss is NaN", [lab_project / "slow.py"], agent="nan-debugger")
        session = await opened.tasks.submit(task)

        async def kinds():
            return [each.kind for each in await opened.sessions.timeline(session.id)]

        known = await forked()
        running = asyncio.create_task(session.run())
        while await forked() <= known:  # noqa: ASYNC110 - what a thread does tells no event
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.4)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        before = await kinds()
        assert before.count("called") == before.count("calling") - 1
        outcome = await (await opened.tasks.resume(session.id)).run()
        after = await kinds()
        assert outcome.state is SessionState.DONE
        assert after[: len(before)] == before
        # No call that had finished was made again.
        assert after.count("called") == after.count("calling")
        await replayed(opened, session.id)
