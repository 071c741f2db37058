"""What a model measures counts if the user agrees to what it chose."""

from __future__ import annotations

import pytest
from modelling import conclude, served
from toys import calling

from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.status import Stance, Status
from esper_agents.orchestration.permissions import restrict
from esper_agents.testing.script import ToolUseBlock

pytestmark = pytest.mark.anyio

# The policy wants one of its tools for a recommendation, and no tool of ours has this name.
MEASURES = "torch-benchmark"
SCRIPT = [ToolUseBlock(MEASURES, {"text": "randn(64, 256)"}), conclude()]


@pytest.fixture
def worker(toybox):
    """Return a toybox whose agent can measure, and whose playbook only looks."""
    toybox.tool("look")
    toybox.tool(MEASURES)
    toybox.agent("worker", calling("look", then=lambda _: Conclude("looked")))
    return toybox


async def recommend(toybox, server, *, is_attended=False, said=None, allow=()):
    """Ask which of two is better; answer a question as told; return the question and the certificate."""
    async with toybox.open() as opened:
        opened.models.allow(opened.services.server.host)
        task = opened.tasks.create("which loader do you recommend?", [toybox.project / "train.py"], agent="worker")
        task = restrict(opened.services, task, allow=allow)
        session = await opened.tasks.submit(opened.models.with_reasoner(task, "claude"))
        outcome = await session.run(is_attended=is_attended)
        (question,) = outcome.questions or (None,)
        if said:
            outcome = await (await opened.approvals.answer(question.id, said)).run(is_attended=is_attended)
        issued = await opened.certificates.read(outcome.certificate.id) if outcome.certificate else None
        return question, issued


async def test_a_measurement_that_a_model_chose_alone_does_not_count(worker, monkeypatch):
    with served(SCRIPT, monkeypatch) as server:
        question, issued = await recommend(worker, server)
    assert question is None
    assert issued.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert "a model chose what was measured" in issued.verdict.below_ceiling


async def test_a_user_who_is_present_is_asked_and_the_measurement_counts_if_they_agree(worker, monkeypatch):
    with served(SCRIPT, monkeypatch) as server:
        question, issued = await recommend(worker, server, is_attended=True, said="approve")
    assert question.tool == MEASURES
    assert "A model chose this; the result counts only if you agree" in question.text
    assert issued.verdict.stance is not Stance.UNDECIDED


async def test_a_measurement_that_is_denied_is_not_made(worker, monkeypatch):
    with served(SCRIPT, monkeypatch) as server:
        _, issued = await recommend(worker, server, is_attended=True, said="deny")
    assert not any(effect.startswith(MEASURES) for effect in worker.effects())
    assert issued.verdict.stance is Stance.UNDECIDED


@pytest.mark.parametrize("script", [[SCRIPT[0], SCRIPT[0]], [[SCRIPT[0], SCRIPT[0]]]])
async def test_a_measurement_that_is_denied_is_neither_made_nor_asked_about_again(worker, monkeypatch, script):
    with served([*script, conclude()], monkeypatch) as server:
        _, issued = await recommend(worker, server, is_attended=True, said="deny")
    assert not any(effect.startswith(MEASURES) for effect in worker.effects())
    assert issued.verdict.stance is Stance.UNDECIDED


async def test_the_same_measurement_is_asked_about_once(worker, monkeypatch):
    with served([SCRIPT[0], SCRIPT[0], conclude()], monkeypatch) as server:
        _, issued = await recommend(worker, server, is_attended=True, said="approve")
    assert len([effect for effect in worker.effects() if effect.startswith(MEASURES)]) == 2
    assert issued.verdict.stance is not Stance.UNDECIDED


async def test_a_tool_that_the_user_allows_counts_without_a_question(worker, monkeypatch):
    with served(SCRIPT, monkeypatch) as server:
        question, issued = await recommend(worker, server, is_attended=True, allow=(MEASURES,))
    assert question is None
    assert issued.verdict.stance is not Stance.UNDECIDED
