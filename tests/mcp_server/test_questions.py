"""Questions of sessions, put to the user of a client."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp_types import ElicitResult
from toys import calling

from esper_agents.domain.agent_action import Ask, Conclude
from esper_agents.domain.evidence import Risk
from esper_agents.mcp_server.server import build_server
from esper_agents.mcp_server.server_project import ServerProject

pytestmark = pytest.mark.anyio
MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])


class Person:
    """User of a client, who answers what the client shows."""

    def __init__(self, answer):
        self.answer = answer
        self.shown = []

    async def __call__(self, _context, params):
        self.shown.append(params.message)
        if self.answer is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"answer": self.answer})


async def asked(toybox, opened, *ask):
    task = opened.tasks.create("look at it", [toybox.project / "train.py"], agent="worker")
    session = await opened.tasks.submit(opened.tasks.restrict(task, ask=ask))
    return (await session.run()).questions[0]


async def answered(toybox, opened, person, mode, **arguments):
    async with ServerProject(toybox.project) as served:
        served._open = opened
        callback = {"elicitation_callback": person} if person else {}
        async with Client(build_server(served), mode=mode, **callback) as client:
            listed = (await client.call_tool("pending_questions", {})).structured_content
            assert listed["total"] == 1
            result = await client.call_tool("answer_question", arguments)
            return listed["questions"][0], result


async def answers_in(opened, question):
    found = [each for each in await opened.sessions.list() if question["session"] == each.id]
    rows = await opened.sessions.timeline(found[0].id)
    return [(row.body["text"], row.body["by"]) for row in rows if row.kind == "answered"]


@MODES
async def test_a_low_risk_is_put_to_the_user_and_the_answer_is_the_clients(toybox, mode):
    toybox.tool("look", risk=Risk.LOW)
    toybox.agent("worker", calling("look"))
    person = Person("approve")
    async with toybox.open() as opened:
        question = await asked(toybox, opened, "look")
        row, result = await answered(toybox, opened, person, mode, question=question.id)
        assert not row["needs_person"]
        assert result.structured_content["state"] == "done"
        ((text, by),) = await answers_in(opened, row)
    assert (text, by.split()[0]) == ("approve", "client")
    assert len(person.shown) == 1
    assert "may look run" in person.shown[0]
    assert toybox.effects() == ["look"]


@MODES
async def test_a_risk_above_low_is_never_put_to_the_client_but_named_with_the_command(toybox, mode):
    toybox.tool("write", risk=Risk.MEDIUM)
    toybox.agent("worker", calling("write"))
    person = Person("approve")
    async with toybox.open() as opened:
        question = await asked(toybox, opened)
        for given in ({}, {"answer": "approve"}):
            row, result = await answered(toybox, opened, person, mode, question=question.id, **given)
            assert row["needs_person"]
            assert result.is_error
            assert f"esper approve {question.id}" in result.content[0].text
        assert await answers_in(opened, row) == []
    assert person.shown == []
    assert toybox.effects() == []


@MODES
@pytest.mark.parametrize("person", [None, Person(None)])
async def test_a_decision_is_not_taken_from_the_calling_agent(toybox, mode, person):
    toybox.tool("look", risk=Risk.LOW)
    toybox.agent("worker", calling("look"))
    async with toybox.open() as opened:
        question = await asked(toybox, opened, "look")
        row, result = await answered(toybox, opened, person, mode, question=question.id, answer="approve")
        assert result.is_error
        assert f"esper approve {question.id}" in result.content[0].text
        assert await answers_in(opened, row) == []


@MODES
async def test_the_calling_agent_answers_a_request_for_information(toybox, mode):
    def asks(_brief):
        answer = yield Ask("which batch size?")
        return Conclude(f"[{answer.text}]")

    toybox.agent("worker", asks)
    async with toybox.open() as opened:
        question = await asked(toybox, opened)
        row, result = await answered(toybox, opened, None, mode, question=question.id, answer="32")
        assert result.structured_content["state"] == "done"
        ((text, by),) = await answers_in(opened, row)
    assert (text, by.split()[0]) == ("32", "client")
