"""A session run again over its record: the same bytes come out, nothing is called, and what differs is named."""

from __future__ import annotations

import pytest
from toys import calling, calls

from esper_agents.domain.agent_action import Ask, Conclude, Consult, HandOff
from esper_agents.domain.evidence import Risk
from esper_agents.domain.session import SessionState
from esper_agents.errors import EvidenceError

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


def files(folder):
    """Return every file under a folder with its bytes, but for what SQLite keeps for readers."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal", "-lock"))
    }


@pytest.fixture
def box(toybox):
    for name in ("one", "two"):
        toybox.tool(name)
    return toybox


async def run(box, opened, agent, answers=()):
    outcome = await (await box.submit(opened, agent)).run()
    for answer in answers:
        outcome = await (await opened.approvals.answer(outcome.questions[0].id, answer)).run()
    return outcome


def everything(_brief):
    """Do whatever there is: call, be refused, consult, ask, call with leave, hand on."""
    yield calls("one", "two")
    yield calls("nosuch")
    yield Consult("helper", "what is it?")
    answer = yield Ask("which?", ("left", "right"))
    yield calls("write", text=answer.text)
    yield HandOff("helper", "toys", "it knows", f"go {answer.text}")
    return Conclude("never")


async def test_the_certificate_of_a_replay_is_the_same_byte_by_byte_and_nothing_is_called_or_written(box, home):
    box.tool("write", risk=Risk.MEDIUM, repeatable=False)
    box.agent("doer", everything)
    box.agent("helper", calling("one"))
    async with box.open() as opened:
        first = await run(box, opened, "doer", ("right", "approve"))
        assert first.state is SessionState.DONE
        done, kept, rows = box.effects(), files(home), await opened.sessions.timeline(first.session)
        found = await opened.sessions.replay(first.session)
        assert (box.effects(), await opened.sessions.timeline(first.session)) == (done, rows)
        assert files(home) == kept
        assert len(await opened.sessions.list()) == 1
    assert found.differences == ()
    assert found.is_identical
    assert found.sha256 == found.recorded_sha256 == first.certificate.sha256
    assert (found.replayed, found.rows) == (len(rows), len(rows))


async def test_tools_that_failed_are_replayed_as_they_failed(box):
    box.tool("cold", fails=EvidenceError("the sensor is cold", remedy="warm it"))
    box.agent("feeler", calling("cold", then=lambda reports: Conclude(reports[0].evidence.summary)))
    async with box.open() as opened:
        first = await run(box, opened, "feeler")
        found = await opened.sessions.replay(first.session)
    assert (found.differences, found.is_identical, box.effects()) == ((), True, ["cold"])


async def test_code_that_has_changed_since_does_not_change_a_replay(box):
    box.agent("worker", calling("one"))
    async with box.open() as opened:
        first = await run(box, opened, "worker")
        (box.project / "train.py").unlink()
        found = await opened.sessions.replay(first.session)
    assert (found.differences, found.is_identical) == ((), True)


async def test_a_playbook_that_decides_otherwise_is_named_with_both_decisions(box):
    box.agent("worker", calling("one"))
    async with box.open() as opened:
        first = await run(box, opened, "worker")
    box.playbooks["worker"] = calling("two")
    async with box.open() as opened:
        found = await opened.sessions.replay(first.session)
    (differs,) = [difference for difference in found.differences if difference.startswith("step 1.1")]
    then, now = differs.split(";")
    assert '"one"' in then
    assert '"two"' in now
    assert found.ending == "step 1.1 is decided otherwise"
    # The record alone still says what was issued.
    assert found.is_identical
    assert box.effects() == ["one"]


async def test_a_playbook_that_concludes_otherwise_is_named(box):
    box.agent("worker", calling("one", then=lambda _: Conclude("old")))
    async with box.open() as opened:
        first = await run(box, opened, "worker")
    box.playbooks["worker"] = calling("one", then=lambda _: Conclude("new"))
    async with box.open() as opened:
        found = await opened.sessions.replay(first.session)
    assert any("old" in difference and "new" in difference for difference in found.differences)


async def test_an_agent_that_has_changed_or_gone_is_named(box):
    box.agent("worker", calling("one"))
    async with box.open() as opened:
        first = await run(box, opened, "worker")
    (box.folder / "worker.md").write_text((box.folder / "worker.md").read_text() + "Otherwise.\n")
    async with box.open() as opened:
        found = await opened.sessions.replay(first.session)
        assert any(difference.startswith("sha256 of worker was") for difference in found.differences)
        assert found.is_identical
        pinned = await opened.sessions.replay(first.session, pinned=True)
        assert (pinned.differences, pinned.is_identical) == ((), True)
    (box.folder / "worker.md").unlink()
    async with box.open() as opened:
        found = await opened.sessions.replay(first.session)
    assert "no agent named 'worker'" in found.differences
    assert found.is_identical


async def test_a_certificate_that_the_record_does_not_give_is_not_identical(box):
    from sqlalchemy import text

    box.agent("worker", calling("one"))
    async with box.open() as opened:
        first = await run(box, opened, "worker")
        with opened.services.store.store.writing() as transaction:
            change = "UPDATE ledger SET body = replace(body, 'one wrote', 'two wrote') WHERE kind = 'called'"
            transaction.connection.execute(text(change))
        found = await opened.sessions.replay(first.session)
    assert not found.is_identical


@pytest.mark.parametrize(("agent", "ending"), [("asker", "it is waiting"), ("writer", "it is waiting")])
async def test_a_session_that_waits_is_replayed_up_to_its_question(box, agent, ending):
    def asking(_brief):
        answer = yield Ask("why?")
        return Conclude(answer.text)

    box.tool("write", risk=Risk.MEDIUM)
    box.agent("asker", asking)
    box.agent("writer", calling("write"))
    async with box.open() as opened:
        first = await run(box, opened, agent)
        found = await opened.sessions.replay(first.session)
    assert (found.differences, found.ending, found.certificate) == ((), ending, "")
    assert found.is_identical
    assert found.replayed == found.rows
    assert box.effects() == []


async def test_a_cancelled_session_is_replayed_to_its_end(box):
    def asking(_brief):
        yield calls("one")
        answer = yield Ask("why?")
        return Conclude(answer.text)

    box.agent("asker", asking)
    async with box.open() as opened:
        first = await run(box, opened, "asker")
        await opened.sessions.cancel(first.session)
        found = await opened.sessions.replay(first.session)
    assert (found.differences, found.certificate) == ((), "")
    assert box.effects() == ["one"]


async def test_a_call_without_a_result_is_where_a_replay_ends(box):
    session = await box.cut_off("one", "last", "two")
    async with box.open() as opened:
        found = await opened.sessions.replay(session)
    assert box.effects() == ["one", "last"]
    assert found.ending == "the ledger ends within a tool call"
    assert found.differences == ()


async def test_a_fork_is_replayed_like_any_session(box):
    box.agent("worker", calling("one"))
    box.agent("other", calling("two"))
    async with box.open() as opened:
        first = await run(box, opened, "worker")
        outcome = await (await opened.sessions.fork(first.session, "1", agent="other")).run()
        found = await opened.sessions.replay(outcome.session)
    assert found.is_identical
