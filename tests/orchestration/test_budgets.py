"""Budgets of a whole session: what is used follows from the ledger, and a stop says so and never judges better."""

from __future__ import annotations

import dataclasses

import pytest
from toys import calls

from esper_agents.domain.agent_action import Conclude, Consult, HandOff
from esper_agents.domain.budget import Amount, Resource, read_budget
from esper_agents.domain.status import Stance, Status
from esper_agents.errors import ExitCode, UsageError
from esper_agents.orchestration.budgets import remaining, usage
from esper_agents.reasoning.playbook import source_of
from esper_agents.reasoning.reasoner import Decision, ReasonerSource

pytestmark = pytest.mark.anyio


class Costly:
    """A reasoner that says what each of its turns has cost, and how long it thought."""

    def __init__(self, inner, **costs):
        self.inner, self.costs = inner, costs

    async def next_move(self, turns, say):
        decision = await self.inner.next_move(turns, say)
        return Decision(decision.move, {"spent": self.costs})


async def stopped(toybox, budget, agent="worker", request="review this", **costs):
    """Run a task under a budget; return its outcome, its certificate, its history and its rows."""
    async with toybox.open() as opened:
        if costs:
            sources = dict(opened.services.playbooks)
            for name, play in toybox.playbooks.items():
                plain = source_of(play, "toys 1")
                sources[name] = ReasonerSource(
                    "toy-model", plain.sha256, "toys 1", lambda brief, plain=plain: Costly(plain.build(brief), **costs)
                )
            opened.services.__dict__["playbooks"] = sources
        paths = [toybox.project / "train.py"]
        task = opened.tasks.create(request, paths, agent=agent, budget=read_budget(budget) if budget else ())
        outcome = await (await opened.tasks.submit(task)).run()
        history = await opened.sessions.history(outcome.session)
        return (
            outcome,
            await opened.certificates.read(outcome.certificate.id),
            history,
            await opened.sessions.timeline(outcome.session),
        )


def looking(times, *, at_once=False):
    def play(_brief):
        if at_once:
            yield calls(*["look"] * times)
        for number in range(0 if at_once else times):
            yield calls("look", text=str(number))
        return Conclude("all was looked at", stance=Stance.FOR)

    return play


@pytest.mark.parametrize("at_once", [True, False])
async def test_tool_calls_beyond_the_budget_are_not_made(toybox, at_once):
    toybox.tool("look")
    toybox.agent("worker", looking(5, at_once=at_once))
    outcome, certificate, _, _ = await stopped(toybox, "tool-calls=3")
    assert len(toybox.effects()) == 3
    assert len(certificate.evidence) == 3
    assert outcome.stopped_by is Resource.TOOL_CALLS
    assert outcome.exit_code is ExitCode.BUDGET
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert certificate.summary == (
        "worker was stopped before it had finished: the budget of 3 tool calls is used up. "
        "What was found until then is on record."
    )
    (gap,) = certificate.gaps
    assert gap.blocks_approval
    assert gap.command == "esper submit --budget tool-calls=6 'review this' train.py"


async def test_a_budget_that_is_just_enough_stops_nothing(toybox):
    toybox.tool("look")
    toybox.agent("worker", looking(3))
    outcome, certificate, _, _ = await stopped(toybox, "tool-calls=3")
    assert (outcome.stopped_by, certificate.summary) == (None, "all was looked at")
    assert outcome.exit_code is not ExitCode.BUDGET


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ("tokens=250", "the budget of 250 tokens is used up (300 tokens)"),
        ("money=0.025", "the budget of 0.025 US dollars is used up (0.03 US dollars)"),
        ("money=0.03", "the budget of 0.03 US dollars is used up"),
        ("tokens=0", "the budget of 0 tokens is used up"),
    ],
)
async def test_what_reasoners_say_they_cost_counts(toybox, budget, why):
    toybox.tool("look")
    toybox.agent("worker", looking(9))
    outcome, certificate, history, rows = await stopped(toybox, budget, tokens=100, money=10_000)
    assert certificate.verdict.below_ceiling in {why, ""}
    assert why in certificate.summary
    assert outcome.exit_code is ExitCode.BUDGET
    decided = [row.body for row in rows if row.kind == "moved" and row.body["stopped_by"] is None]
    assert usage(history)[Resource.TOKENS] == 100 * len(decided)
    assert len(certificate.evidence) == max(0, len(decided) - 1)


@pytest.mark.sample(3)
@pytest.mark.parametrize("said", [-100, "100", True, None, 1.5, {"tokens": 5}])
async def test_what_is_no_number_of_tokens_counts_as_none_and_gives_none_back(toybox, said):
    toybox.tool("look")
    toybox.agent("worker", looking(2))
    _, _, history, _ = await stopped(toybox, "", tokens=said)
    assert usage(history)[Resource.TOKENS] == 0


async def test_a_budget_of_no_tokens_does_not_stop_who_takes_none(toybox):
    toybox.tool("look")
    toybox.agent("worker", looking(2))
    outcome, _, _, _ = await stopped(toybox, "tokens=0,money=0")
    assert outcome.stopped_by is None


async def test_no_seconds_at_all_stop_a_session_before_its_first_move(toybox):
    toybox.tool("look")
    toybox.agent("worker", looking(2))
    outcome, certificate, _, _ = await stopped(toybox, "seconds=0")
    assert outcome.stopped_by is Resource.SECONDS
    assert (toybox.effects(), certificate.evidence) == ([], ())


async def test_seconds_are_those_that_reasoners_and_tools_worked(toybox):
    toybox.tool("look")
    toybox.agent("worker", looking(3))
    _, certificate, history, rows = await stopped(toybox, "")
    thought_ms = sum(row.body["took_ms"] for row in rows if row.kind == "moved")
    worked_ns = sum(each.duration_ns for each in certificate.evidence)
    assert usage(history)[Resource.SECONDS] == thought_ms + worked_ns // 1_000_000


async def test_a_hop_beyond_the_budget_ends_the_session(toybox):
    def passing(brief):
        yield calls("look", text=f"{len(brief.chain)}")
        yield HandOff("second" if brief.agent.name == "first" else "first", "toys", "it knows", "nothing")

    toybox.tool("look")
    toybox.agent("first", passing)
    toybox.agent("second", passing)
    outcome, certificate, _, _ = await stopped(toybox, "hops=2", agent="first")
    assert [handoff.receiver for handoff in certificate.handoffs] == ["second", "first"]
    assert outcome.stopped_by is Resource.HOPS
    assert outcome.exit_code is ExitCode.BUDGET


async def test_a_larger_budget_of_hops_lets_a_task_go_further_than_without_one(toybox):
    def passing(brief):
        if len(brief.chain) == 12:
            return Conclude("far enough")
        yield calls("look", text=f"{len(brief.chain)}")
        yield HandOff("second" if brief.agent.name == "first" else "first", "toys", "it knows", "nothing")

    toybox.tool("look")
    toybox.agent("first", passing)
    toybox.agent("second", passing)
    _, certificate, _, _ = await stopped(toybox, "hops=20", agent="first")
    assert len(certificate.handoffs) == 12


@pytest.mark.both_databases
async def test_one_budget_is_for_the_whole_tree_and_a_child_never_has_more_than_its_parent(toybox):
    seen = []

    def asking(brief):
        seen.append(brief.budget_left)
        yield calls("look", text="asker")
        answer = yield Consult("wise", "what do you say?")
        yield calls("look", text="after")
        return Conclude(answer.answer)

    def wise(brief):
        seen.append(brief.budget_left)
        for number in range(5):
            yield calls("look", text=f"wise {number}")
        return Conclude("much")

    toybox.tool("look")
    toybox.agent("worker", asking)
    toybox.agent("wise", wise)
    outcome, certificate, history, _ = await stopped(toybox, "tool-calls=3,hops=2")
    assert toybox.effects() == ["look asker", "look wise 0", "look wise 1"]
    assert outcome.exit_code is ExitCode.BUDGET
    (answer,) = certificate.consults
    assert answer.answer.startswith("wise was stopped before it had finished")
    assert seen[0] == (Amount(Resource.HOPS, 2), Amount(Resource.TOOL_CALLS, 3))
    assert seen[1] == answer.budget_left == (Amount(Resource.HOPS, 2), Amount(Resource.TOOL_CALLS, 2))
    assert remaining(history) == (Amount(Resource.HOPS, 2), Amount(Resource.TOOL_CALLS, 0))


async def test_a_stop_never_makes_a_verdict_better(toybox):
    """What was found stands: the ceiling of the critical finding is below undecided, and the verdict with it."""
    (toybox.project / "train.py").write_text("def f(x, into=[]):\n    eval(x)\n    into.append(x)\n")

    def reviewing(_brief):
        yield calls("static-review", paths=["train.py"])
        yield calls("look", text="more")
        return Conclude("done")

    toybox.tool("look")
    toybox.agent("worker", reviewing)
    _, free, _, _ = await stopped(toybox, "")
    _, certificate, _, _ = await stopped(toybox, "tool-calls=1")
    order = [Stance.FOR, Stance.CONDITIONAL, Stance.UNDECIDED, Stance.AGAINST, Stance.REJECTED, Stance.EMERGENCY]
    assert certificate.verdict.stance is max(Stance.UNDECIDED, free.verdict.stance, key=order.index)


@pytest.mark.both_databases
async def test_a_stopped_session_that_is_resumed_stays_as_it_is(toybox):
    toybox.tool("look")
    toybox.agent("worker", looking(5))
    outcome, certificate, _, rows = await stopped(toybox, "tool-calls=2")
    async with toybox.open() as opened:
        again = await (await opened.tasks.resume(outcome.session)).run()
        assert again.certificate.id == certificate.id
        assert again.exit_code is ExitCode.BUDGET
        assert await opened.sessions.timeline(outcome.session) == rows


@pytest.mark.both_databases
async def test_an_interrupted_call_that_the_budget_has_paid_for_is_taken_to_its_end(toybox):
    class Died(BaseException):
        pass

    deaths = [Died()]

    async def die(_context):
        if deaths:
            raise deaths.pop()

    toybox.tool("look", during=die)
    toybox.agent("worker", looking(1))
    async with toybox.open() as opened:
        paths = [toybox.project / "train.py"]
        task = opened.tasks.create("review this", paths, agent="worker", budget=read_budget("tool-calls=1"))
        session = await opened.tasks.submit(task)
        with pytest.raises(Died):
            await session.run()
        outcome = await (await opened.tasks.resume(session.id)).run()
        assert outcome.stopped_by is None
        assert len((await opened.certificates.read(outcome.certificate.id)).evidence) == 1


async def test_a_question_that_is_asked_again_begins_with_a_budget_of_its_own(toybox):
    toybox.tool("look")
    toybox.agent("worker", looking(5))
    outcome, certificate, _, _ = await stopped(toybox, "tool-calls=2")
    assert certificate.task.budget == (Amount(Resource.TOOL_CALLS, 2),)
    async with toybox.open() as opened:
        assert (await opened.tasks.repeat(outcome.certificate.id)).budget == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("minutes=3", "unknown budget resource 'minutes'"),
        ("tokens", "invalid amount '' for tokens"),
        ("seconds=-1", "invalid amount '-1' for seconds"),
        ("seconds=1e3", "invalid amount '1e3' for seconds"),
        ("seconds=inf", "invalid amount 'inf' for seconds"),
        ("seconds=0.0001", "invalid amount '0.0001' for seconds"),
        ("hops=1.5", "invalid amount '1.5' for hops"),
        ("hops=51", "a task can be handed off 50 times at most"),
        ("hops=2,hops=3", "the budget names hops twice"),
        ("tokens=" + "9" * 40, f"invalid amount '{'9' * 40}' for tokens"),
        ("", "the budget is empty"),
    ],
)
def test_a_budget_that_is_none_is_refused(text, problem):
    with pytest.raises(UsageError) as caught:
        read_budget(text)
    assert caught.value.problem == problem
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["seconds=60", "money=0.25", "tokens=1000,hops=3,tool-calls=20", "seconds=1.5"])
def test_a_budget_is_said_as_it_was_given(text):
    assert ",".join(each.option for each in read_budget(text)) == text
    assert dataclasses.is_dataclass(read_budget(text)[0])
