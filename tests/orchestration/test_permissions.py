from __future__ import annotations

import json

import pytest
from toys import calling, calls

from esper_agents.domain.agent_action import CallTools, Conclude, Consult, HandOff, Panel, ToolCall
from esper_agents.domain.codec import decode
from esper_agents.domain.evidence import CallOutcome, Risk
from esper_agents.domain.ledger import UserQuestion
from esper_agents.domain.session import SessionState, Submission
from esper_agents.errors import DefinitionError, NotFoundError
from esper_agents.orchestration.permission_rules import digest_of_rules
from esper_agents.orchestration.session_run import StoppedError

pytestmark = pytest.mark.anyio


@pytest.fixture
def careful(toybox):
    """Return a toybox whose agent calls one tool that a person must agree to, and one that nobody must."""
    toybox.tool("write", risk=Risk.MEDIUM, repeatable=False)
    toybox.tool("look")
    toybox.agent("writer", calling("look", "write"))
    return toybox


def persons(home, *rules):
    """Write the settings of a person."""
    file = home / "config.toml"
    file.write_text("\n".join(f"[[rule]]\n{rule}" for rule in rules))
    file.chmod(0o600)


def projects(toybox, *rules):
    """Write the settings of the project."""
    (toybox.project / ".esper").mkdir(exist_ok=True)
    (toybox.project / ".esper/config.toml").write_text("\n".join(f"[[rule]]\n{rule}" for rule in rules))


ALLOW_WRITE = 'tool = "write"\naction = "allow"'
DENY_LOOK = 'tool = "look"\naction = "deny"\nreason = "looking is rude"'
ASK_ALL = 'tool = "*"\naction = "ask"'


async def test_what_the_person_allows_runs_unasked(careful, home):
    persons(home, ALLOW_WRITE)
    ran = await careful.run("writer")
    assert ran.outcome.state is SessionState.DONE
    assert careful.effects() == ["look", "write"]


async def test_what_the_project_would_allow_is_asked_all_the_same(careful):
    projects(careful, ALLOW_WRITE)
    ran = await careful.run("writer")
    assert [question.tool for question in ran.outcome.questions] == ["write"]
    assert careful.effects() == ["look"]


async def test_what_the_project_asks_about_is_asked_where_the_person_allows_it(careful, home):
    persons(home, ALLOW_WRITE)
    projects(careful, ASK_ALL)
    ran = await careful.run("writer")
    assert [question.tool for question in ran.outcome.questions] == ["look", "write"]
    assert careful.effects() == []
    assert "Asked because of the project's settings: ask *" in ran.outcome.questions[1].text


@pytest.mark.both_databases
async def test_a_denied_tool_never_runs_and_the_record_says_which_rule_it_was(careful, home):
    persons(home, ALLOW_WRITE, DENY_LOOK)
    ran = await careful.run("writer")
    assert careful.effects() == ["write"]
    done = {each.tool: each for each in ran.certificate.evidence}
    assert done["look"].outcome is CallOutcome.DENIED
    assert done["look"].summary == "not allowed, because of your settings: deny look (looking is rude)"


async def test_a_denied_tool_is_denied_without_a_question(careful, home):
    persons(home, 'tool = "write"\naction = "deny"')
    ran = await careful.run("writer")
    assert ran.outcome.state is SessionState.DONE
    assert ran.bodies("asked") == []


@pytest.mark.parametrize(("text", "asked"), [("docs/a", []), ("src/a", ["write"]), ("docs/../src/a", ["write"])])
async def test_a_rule_may_hold_for_some_arguments_only(toybox, home, text, asked):
    persons(home, 'tool = "write"\naction = "allow"\narguments = {text = "docs/*"}')
    toybox.tool("write", risk=Risk.HIGH)

    def play(_brief):
        yield calls("write", text=text)
        return Conclude("done")

    toybox.agent("writer", play)
    ran = await toybox.run("writer")
    assert [question.tool for question in ran.outcome.questions] == asked


async def test_a_rule_about_an_argument_that_is_left_out_looks_at_what_the_tool_then_takes(careful, home):
    persons(home, 'tool = "look"\naction = "deny"\narguments = {text = "*"}')
    ran = await careful.run("writer")
    assert careful.effects() == []
    assert [row.body["evidence"]["outcome"] for row in ran.rows if row.kind == "called"] == ["denied"]


async def test_the_rules_a_session_began_under_are_on_record_with_their_digest(careful, home):
    persons(home, ALLOW_WRITE)
    projects(careful, DENY_LOOK, ALLOW_WRITE)
    (begun,) = (await careful.run("writer")).bodies("submitted")
    rules = decode(Submission, json.dumps(begun)).rules
    assert [str(rule) for rule in rules] == ["allow write", "deny look (looking is rude)"]
    assert begun["rules_sha256"] == digest_of_rules(rules)


async def begun_and_stopped(toybox, opened, **options):
    task = opened.tasks.restrict(
        opened.tasks.create("review this", [toybox.project / "train.py"], agent="writer"), **options
    )
    session = await opened.tasks.submit(task)
    session.stop()
    with pytest.raises(StoppedError):
        await session.run()
    return session.id


@pytest.mark.both_databases
async def test_a_resumed_session_has_the_rules_it_began_under_and_what_is_tighter_now(careful, home):
    persons(home, ALLOW_WRITE)
    async with careful.open() as opened:
        session = await begun_and_stopped(careful, opened)
    persons(home, DENY_LOOK)
    async with careful.open() as opened:
        outcome = await (await opened.tasks.resume(session)).run()
        assert outcome.state is SessionState.DONE
    assert careful.effects() == ["write"]


async def test_what_is_allowed_later_does_not_count_for_a_session_that_has_begun(careful, home):
    async with careful.open() as opened:
        session = await begun_and_stopped(careful, opened)
    persons(home, ALLOW_WRITE)
    async with careful.open() as opened:
        outcome = await (await opened.tasks.resume(session)).run()
        assert [question.tool for question in outcome.questions] == ["write"]
    assert careful.effects() == ["look"]


@pytest.mark.both_databases
async def test_what_a_person_denied_stays_denied_where_no_rule_wants_it_asked_any_more(careful, home):
    projects(careful, 'tool = "look"\naction = "ask"')
    async with careful.open() as opened:
        session = await begun_and_stopped(careful, opened)
    projects(careful, ASK_ALL)
    async with careful.open() as opened:
        outcome = await (await opened.tasks.resume(session)).run()
        asked = {question.tool: question.id for question in outcome.questions}
        await (await opened.approvals.answer(asked["look"], "deny")).run()
    projects(careful)
    persons(home, ALLOW_WRITE, 'tool = "look"\naction = "allow"')
    async with careful.open() as opened:
        await (await opened.approvals.answer(asked["write"], "deny")).run()
    assert careful.effects() == []


async def test_a_call_that_a_person_denied_never_runs_where_the_rule_that_asked_is_gone(careful):
    async with careful.open() as opened:
        session = await begun_and_stopped(careful, opened)
    projects(careful, 'tool = "look"\naction = "ask"')
    async with careful.open() as opened:
        outcome = await (await opened.tasks.resume(session)).run()
        (asked,) = (question.id for question in outcome.questions if question.tool == "look")
    projects(careful)
    async with careful.open() as opened:
        await (await opened.approvals.answer(asked, "deny")).run()
    assert "look" not in careful.effects()


async def test_a_denial_that_comes_after_an_approval_counts(careful):
    async with careful.open() as opened:
        outcome = await (await careful.submit(opened, "writer")).run()
        held = await opened.approvals.answer(outcome.questions[0].id, "approve")
        held.stop()
        with pytest.raises(StoppedError):
            await held.run()
    projects(careful, 'tool = "wr*"\naction = "deny"')
    async with careful.open() as opened:
        assert (await (await opened.tasks.resume(outcome.session)).run()).state is SessionState.DONE
    assert careful.effects() == ["look"]


async def test_settings_that_cannot_be_read_stop_a_submission_before_there_is_a_session(careful):
    projects(careful, 'tool = "look"\naction = "dney"')
    async with careful.open() as opened:
        with pytest.raises(DefinitionError, match=r"\.esper/config\.toml:3"):
            await careful.submit(opened, "writer")
        assert await opened.sessions.list() == ()


async def test_settings_that_break_later_stop_a_session_and_lose_nothing(careful):
    async with careful.open() as opened:
        session = await begun_and_stopped(careful, opened)
    projects(careful, 'tool = "look"\naction = "dney"')
    async with careful.open() as opened:
        with pytest.raises(DefinitionError):
            await (await opened.tasks.resume(session)).run()
    assert careful.effects() == []
    projects(careful)
    async with careful.open() as opened:
        assert (await (await opened.tasks.resume(session)).run()).state is SessionState.WAITING
    assert careful.effects() == ["look"]


def asks_others(tool):
    """Return playbooks of one who calls a tool, asks others to, and hands on to one who calls it, too."""

    def first(_brief):
        yield calls(tool)
        yield Consult("second", "what do you see?")
        yield Panel((Consult("second", "and now?"), Consult("third", "and you?")))
        yield HandOff("third", "looking", "they look better", "nothing yet")
        return Conclude("not reached")

    return {"first": first, "second": calling(tool), "third": calling(tool)}


async def test_what_a_task_denies_no_agent_of_it_can_do_not_even_one_that_is_consulted_or_handed_the_task(toybox):
    toybox.tool("look")
    for name, play in asks_others("look").items():
        toybox.agent(name, play)
    async with toybox.open() as opened:
        task = opened.tasks.restrict(
            opened.tasks.create("review this", [toybox.project / "train.py"], agent="first"), deny=["lo*"]
        )
        outcome = await (await opened.tasks.submit(task)).run()
        certificate = await opened.certificates.read(outcome.certificate.id)
    assert toybox.effects() == []
    assert len(certificate.evidence) == 5
    assert {each.outcome for each in certificate.evidence} == {CallOutcome.DENIED}
    assert certificate.evidence[0].summary == "not allowed, because of the task: deny lo*"
    assert certificate.task.options == {"deny": "lo*"}


async def test_what_a_task_wants_asked_is_asked_of_every_agent_by_itself(toybox):
    toybox.tool("look")
    plays = asks_others("look")
    for name, play in plays.items():
        toybox.agent(name, play)
    async with toybox.open() as opened:
        task = opened.tasks.restrict(
            opened.tasks.create("review this", [toybox.project / "train.py"], agent="first"), ask=["look"]
        )
        outcome = await (await opened.tasks.submit(task)).run()
        seen = set()
        while outcome.state is SessionState.WAITING:
            assert len(toybox.effects()) == len(seen)
            asked = outcome.questions[0]
            assert asked.id not in seen
            seen.add(asked.id)
            outcome = await (await opened.approvals.answer(asked.id, "approve")).run()
    assert len(seen) == 5
    assert len(toybox.effects()) == 5


async def test_what_a_task_restricts_holds_when_it_is_asked_again(careful):
    async with careful.open() as opened:
        task = opened.tasks.create("review this", [careful.project / "train.py"], agent="writer")
        outcome = await (await opened.tasks.submit(opened.tasks.restrict(task, deny=["look", "write"]))).run()
        again = opened.tasks.restrict(await opened.tasks.repeat(outcome.certificate.id), ask=["write"])
        assert again.options == {"ask": "write", "deny": "look write"}
        await (await opened.tasks.submit(again)).run()
    assert careful.effects() == []


async def test_a_tool_that_is_none_is_refused_with_the_nearest_names(careful):
    async with careful.open() as opened:
        task = opened.tasks.create("review this", [careful.project / "train.py"])
        for name in ("wriite", "x*", "", "look write"):
            with pytest.raises(NotFoundError):
                opened.tasks.restrict(task, deny=[name])
        with pytest.raises(NotFoundError, match="no tool named 'wriite'") as error:
            opened.tasks.restrict(task, deny=["wriite"])
        assert "'write'" in error.value.remedy


async def test_a_plan_says_which_tools_are_asked_about_and_which_never_run(careful, home):
    persons(home, DENY_LOOK)
    projects(careful, ALLOW_WRITE)
    async with careful.open() as opened:
        plan = await opened.tasks.plan(
            opened.tasks.create("review this", [careful.project / "train.py"], agent="writer")
        )
    assert plan.leave["write"] == "asks you first"
    assert plan.leave["look"] == "never runs"
    assert [str(each) for each in plan.ignored] == ["allow write"]


def test_a_ledger_from_before_there_were_rules_and_types_of_answers_is_read():
    old = '{"id": "q", "text": "t", "options": [], "tool": "", "arguments": {}, "arguments_sha256": ""}'
    assert decode(UserQuestion, old).wants == "text"


async def test_an_exception_from_the_sandbox_is_asked_about_though_the_tool_is_allowed(toybox, home):
    def play(_brief):
        yield CallTools((ToolCall("run-tests", {"paths": ["."], "network": True, "data": ["x"]}),))
        return Conclude("done")

    toybox.agent("tester", play)
    persons(home, 'tool = "run-tests"\naction = "allow"', 'tool = "run-tests:network"\naction = "allow"')
    ran = await toybox.run("tester")
    (question,) = ran.outcome.questions
    assert "beyond that it wants run-tests:network, run-tests:read=x" in question.text
    persons(home, 'tool = "run-tests*"\naction = "deny"\nreason = "not here"')
    ran = await toybox.run("tester")
    assert [each.outcome for each in ran.certificate.evidence] == [CallOutcome.DENIED]
