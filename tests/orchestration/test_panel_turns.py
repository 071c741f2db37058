"""Members of a panel that reason with models take their turns together: one after the other only in what they do."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing

import pytest
from modelling import ask, conclude, opening, served, told
from toys import calling

from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.budget import Amount, Resource
from esper_agents.domain.evidence import Risk
from esper_agents.domain.session import SessionState
from esper_agents.storage import ledger
from esper_agents.storage.ledger import append
from esper_agents.testing.script import Fail, Hang, ToolUseBlock

pytestmark = pytest.mark.anyio
_ASKED = re.compile(r"what says (\w+)\?")


@pytest.fixture
def box(toybox):
    """Return a toybox of an agent with a playbook, three others without one, and two tools."""
    toybox.tool("look")
    toybox.tool("write", risk=Risk.MEDIUM)
    toybox.agent("worker", calling("look", then=lambda _: Conclude("looked")))
    for name in ("one", "two", "three"):
        toybox.agent(name)
    return toybox


def consult(*names):
    return [ToolUseBlock("consult", {"agent": name, "question": f"what says {name}?"}) for name in names]


def asked(request):
    """Return the member of a panel that makes a request; empty for the agent that asks the panel."""
    found = _ASKED.search(opening(request)) if "Another agent asks you" in opening(request) else None
    return found[1] if found else ""


def panel(*names, **turns):
    """Return the script of a panel whose members take turns and then answer; `order` of it are those that asked."""

    def script(request):
        who = asked(request)
        script.order.append(who)
        number = sum(message["role"] == "assistant" for message in request.body["messages"])
        mine = turns.get(who, ()) if who else [consult(*names)]
        return mine[number] if number < len(mine) else conclude(summary=f"{who} answers.")

    script.order = []
    return script


LOOK = ToolUseBlock("look")
# It asks the playbook, which looks and concludes.
MOVES_OF_PLAYBOOK = 3


async def test_members_wait_for_their_models_at_the_same_time(box, monkeypatch):
    monkeypatch.setenv("ESPER_MODEL_TIMEOUT", "0.5")
    hanging = [Hang()]
    script = panel("one", "two", two=[LOOK])

    def slow(request):
        answer = script(request)
        return hanging.pop() if hanging and asked(request) == "one" else answer

    with served(slow, monkeypatch) as server:
        ran = await ask(box, server)
    # The second member's model is asked before that of the first one is asked again.
    assert script.order.index("two") < [number for number, who in enumerate(script.order) if who == "one"][1]
    assert [each.agent for each in ran.certificate.consults] == ["worker", "one", "two"]
    assert "one answers." in told(server.requests[-1])


async def test_what_members_do_is_done_in_their_order_and_a_replay_is_the_same(box, monkeypatch):
    looks = {name: [ToolUseBlock("look", {"text": f"{name} {turn}"}) for turn in (1, 2)] for name in ("one", "two")}
    with served(panel("one", "two", **looks), monkeypatch) as server:
        ran = await ask(box, server)
        asked_for = len(server.requests)
        async with box.open() as opened:
            replayed = await opened.sessions.replay(ran.outcome.session)
        assert len(server.requests) == asked_for
    assert box.effects() == ["look", "look one 1", "look two 1", "look one 2", "look two 2"]
    assert (replayed.is_identical, replayed.differences) == (True, ())


async def test_a_member_that_asks_an_agent_itself_goes_on_when_it_has_the_answer(box, monkeypatch):
    script = panel("one", "two", one=[consult("three")[0], LOOK], two=[LOOK, LOOK])
    with served(script, monkeypatch) as server:
        ran = await ask(box, server)
        async with box.open() as opened:
            replayed = await opened.sessions.replay(ran.outcome.session)
    assert {each.agent: each.answer for each in ran.certificate.consults}["one"] == "one answers."
    assert script.order.count("three") == 1
    assert (replayed.is_identical, replayed.differences) == (True, ())


async def test_members_that_need_an_approval_wait_together_and_no_other_turn_is_taken_before(box, monkeypatch):
    script = panel("one", "two", one=[ToolUseBlock("write", {"text": "one"})], two=[LOOK])
    with served(script, monkeypatch) as server:
        ran = await ask(box, server)
        assert ran.outcome.state is SessionState.WAITING
        assert sorted(script.order) == ["", "one", "two"]
        assert box.effects() == ["look", "look"]
        async with box.open() as opened:
            session = await opened.approvals.answer(ran.outcome.questions[0].id, "approve")
            outcome = await session.run()
            replayed = await opened.sessions.replay(outcome.session)
    assert outcome.state is SessionState.DONE
    assert box.effects() == ["look", "look", "write one"]
    assert (replayed.is_identical, replayed.differences) == (True, ())


async def test_a_member_whose_model_cannot_answer_says_so_and_the_other_answers(box, monkeypatch):
    script = panel("one", "two", one=[Fail(400, "temperature: not known")], two=[LOOK])
    with served(script, monkeypatch) as server:
        ran = await ask(box, server)
        asked_for = len(server.requests)
        async with box.open() as opened:
            replayed = await opened.sessions.replay(ran.outcome.session)
        assert len(server.requests) == asked_for
    assert (replayed.is_identical, replayed.differences) == (True, ())
    one, two = ran.certificate.consults[1:]
    assert "temperature: not known" in one.problem
    assert (two.answer, two.problem) == ("two answers.", "")


async def test_under_a_budget_one_member_asks_after_the_other(box, monkeypatch):
    script = panel("one", "two", one=[LOOK], two=[LOOK])
    with served(script, monkeypatch):
        async with box.open() as opened:
            opened.models.allow(opened.services.server.host)
            budget = (Amount(Resource.TOKENS, 900_000),)
            task = opened.tasks.create("review this", [box.project / "train.py"], agent="worker", budget=budget)
            session = await opened.tasks.submit(opened.models.with_reasoner(task, "claude"))
            await session.run()
    assert script.order == ["", "one", "one", "two", "two", ""]


@pytest.mark.slow
async def test_a_panel_that_is_killed_after_any_write_goes_on_to_the_same_end(box, home, tmp_path, monkeypatch):
    """Each state of the database between two writes is that of a process that was killed there."""
    states = []

    def database():
        return next((home / "projects").glob("*/esper.db"))

    def copied(store, *arguments, **options):
        appended = append(store, *arguments, **options)
        if not states:
            # Without the certificate that the whole session gets.
            shutil.copytree(home, tmp_path / "home")
        states.append(tmp_path / f"{len(states)}.db")
        copy(database(), states[-1])
        return appended

    script = panel("one", "two", one=[LOOK], two=[ToolUseBlock("look", {"text": "two"}), consult("three")[0]])
    with served(script, monkeypatch) as server, monkeypatch.context() as watched:
        watched.setattr(ledger, "append", copied)
        whole = await ask(box, server)
    asked_for, within = len(whole.requests), 0
    for state in states:
        with closing(sqlite3.connect(state)) as killed, killed:
            killed.execute("UPDATE session SET owner = '', expires_ms = 0")
            said = count(killed, "moved")
            is_within = count(killed, "opened") >= 4 and count(killed, "concluded") < 4
        if not is_within:
            continue
        within += 1
        shutil.rmtree(home)
        shutil.copytree(tmp_path / "home", home)
        copy(state, database())
        with served(script, monkeypatch) as server:
            async with box.open() as opened:
                opened.models.allow(opened.services.server.host)
                outcome = await (await opened.tasks.resume(whole.outcome.session)).run()
                issued = await opened.certificates.read(outcome.certificate.id)
                replayed = await opened.sessions.replay(outcome.session)
            # A decision on record is not asked for again.
            assert len(server.requests) <= asked_for - (said - MOVES_OF_PLAYBOOK)
        assert answers(issued) == answers(whole.certificate)
        assert [each.arguments for each in issued.evidence] == [each.arguments for each in whole.certificate.evidence]
        assert (replayed.is_identical, replayed.differences) == (True, ())
    assert within > 6


def answers(certificate):
    return [(each.agent, each.answer, len(each.evidence), each.problem) for each in certificate.consults]


def copy(source, target):
    with closing(sqlite3.connect(source)) as before, closing(sqlite3.connect(target)) as after:
        before.backup(after)


def count(database, kind):
    return database.execute("SELECT count(*) FROM ledger WHERE kind = ?", (kind,)).fetchone()[0]
