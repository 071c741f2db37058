"""Loops are seen before anybody is asked, and whoever makes progress goes on."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
import rfc8785
from toys import calls

from esper_agents.domain.agent_action import Conclude, HandOff, SupportedClaim
from esper_agents.domain.budget import Amount, Resource
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Stance, Status
from esper_agents.orchestration.turn import DO_NOT, GO_ON

pytestmark = pytest.mark.anyio


def walking(trail, progress=(), asked=None):
    """Return a playbook that all agents share: each hands the task to the next of the trail, and may look first."""

    def play(brief):
        hop = len(brief.chain)
        if asked is not None:
            asked.append(brief.agent.name)
        if hop in progress:
            yield calls("look", text=f"hop {hop}")
        if hop + 1 < len(trail):
            refused = yield HandOff(trail[hop + 1], "toys", "it knows", "nothing")
            assert isinstance(refused, Refusal)
        return Conclude(f"ended with {brief.agent.name}")

    return play


async def walk(toybox, trail, progress=(), **options):
    """Let a task go along a trail of agents, each one letter; return the run and the trail that it went."""
    asked = []
    toybox.tool("look")
    for name in sorted(set(trail)):
        toybox.agent(name, walking(trail, progress, asked))
    async with toybox.open() as opened:
        task = opened.tasks.create("review this", [toybox.project / "train.py"], agent=trail[0], **options)
        outcome = await (await opened.tasks.submit(task)).run()
        certificate = await opened.certificates.read(outcome.certificate.id)
        rows = await opened.sessions.timeline(outcome.session)
    # Nobody but those who had the task was asked for a move.
    assert "".join(asked) == trail[0] + "".join(handoff.receiver for handoff in certificate.handoffs)
    return outcome, certificate, "".join(asked), rows


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("trail", "went"),
    [
        ("abab", "aba"),
        ("abcabc", "abca"),
        ("abcdabcd", "abcda"),
        ("abcbcb", "abcb"),
        ("abacab", "abaca"),
        ("abcacbabcacb", "abcacba"),
    ],
)
async def test_a_loop_of_any_length_ends_at_the_first_hop_that_repeats(toybox, trail, went):
    _, certificate, gone, _ = await walk(toybox, trail)
    assert gone == went
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


@pytest.mark.parametrize(("progress", "went"), [({0}, "aba"), ({0, 1}, "abab"), ({1, 3}, "ababab")])
async def test_what_was_measured_before_does_not_keep_a_loop_going(toybox, progress, went):
    assert (await walk(toybox, "abababab", progress))[2] == went


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("trail", "progress"),
    [
        ("aba", ()),
        ("abcba", ()),
        ("abacada", ()),
        ("abcbdba", ()),
        ("ababababa", range(9)),
        ("ababababa", {1, 3, 5, 7}),
        ("ababababa", {2, 4, 6, 8}),
        ("abcabcabc", {2, 5}),
    ],
)
async def test_legal_back_and_forth_is_not_stopped(toybox, trail, progress):
    assert (await walk(toybox, trail, progress))[2] == trail


async def test_a_task_that_goes_in_no_circle_is_handed_off_eight_times_at_most(toybox):
    assert (await walk(toybox, "abcdefghijk"))[2] == "abcdefghi"


async def test_handing_back_is_said_in_the_packet_and_undoes_a_hop(toybox):
    _, certificate, _, _ = await walk(toybox, "abcba")
    assert [handoff.is_return for handoff in certificate.handoffs] == [False, False, True, True]


@pytest.mark.both_databases
async def test_each_packet_names_the_one_before_and_a_stranger_can_check_the_chain(toybox):
    outcome, _, _, _ = await walk(toybox, "abcba")
    async with toybox.open() as opened:
        chain = json.loads(await opened.certificates.record(outcome.certificate.id))["predicate"]["handoffs"]
    digests = [sha256(rfc8785.dumps(each)).hexdigest() for each in chain]
    assert [each["previous_sha256"] for each in chain] == ["", *digests[:-1]]


async def test_a_secret_in_a_packet_is_struck_out_before_the_next_one_digests_it(toybox):
    secret = "ghp_" + "a1B2" * 9

    def first(_brief):
        yield HandOff("b", "toys", "it knows", f"the token is {secret}")

    toybox.tool("look")
    toybox.agent("a", first)
    toybox.agent("b", walking("abc"))
    toybox.agent("c", walking("abc"))
    ran = await toybox.run("a")
    assert ran.certificate.handoffs[0].context.startswith("the token is [struck out")
    assert ran.certificate.redactions == 1
    async with toybox.open() as opened:
        chain = json.loads(await opened.certificates.record(ran.certificate.id))["predicate"]["handoffs"]
    assert chain[1]["previous_sha256"] == sha256(rfc8785.dumps(chain[0])).hexdigest()


async def test_every_packet_says_how_many_hops_are_left(toybox):
    budget = (Amount(Resource.HOPS, 4),)
    _, certificate, _, _ = await walk(toybox, "abcba", budget=budget)
    assert [handoff.budget_left for handoff in certificate.handoffs] == [
        (Amount(Resource.HOPS, n),) for n in (3, 2, 1, 0)
    ]


async def test_a_claim_that_comes_with_the_hop_is_progress(toybox):
    claim = Diagnostic(
        "TOY1",
        "toy-claim",
        Severity.WARNING,
        Category.CORRECTNESS,
        Location("train.py", 1),
        "it is wrong",
        "mend it",
        Confidence.HIGH,
        "seen",
        "",
        "a" * 32,
    )

    def second(brief):
        if len(brief.chain) > 1:
            return Conclude("it came again")
        yield HandOff("a", "toys", "no", "nothing")

    def first(brief):
        claims = ()
        if brief.handoff:
            claims = (SupportedClaim(claim, (brief.evidence[0].id,)),)
        else:
            yield calls("look")
        yield HandOff("b", "toys", "it knows", "nothing", claims=claims)

    toybox.tool("look")
    toybox.agent("a", first)
    toybox.agent("b", second)
    ran = await toybox.run("a")
    assert [handoff.receiver for handoff in ran.certificate.handoffs] == ["b", "a", "b"]


@pytest.mark.both_databases
async def test_after_the_third_refused_hop_the_frame_ends_undecided(toybox):
    def look_once(brief):
        if not brief.handoff:
            yield calls("look")
        other = "b" if brief.agent.name == "a" else "a"
        for _ in range(9):
            yield HandOff(other, "toys", "it knows", "nothing")

    toybox.tool("look")
    toybox.agent("a", look_once)
    toybox.agent("b", look_once)
    ran = await toybox.run("a")
    assert len(ran.bodies("move-refused")) == 3
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert ran.certificate.summary == "a could not come to a judgement."
    assert any("3 moves in a row that could not be carried out" in gap.why for gap in ran.certificate.gaps)


async def test_what_a_refused_hop_left_unasked_keeps_the_verdict_undecided(toybox):
    def wanting(brief):
        yield calls("look", text="once")
        yield HandOff("b" if brief.agent.name == "a" else "a", "toys", "it knows", "nothing")
        return Conclude("fine all the same", stance=Stance.FOR)

    toybox.tool("look")
    toybox.agent("a", wanting)
    toybox.agent("b", wanting)
    ran = await toybox.run("a")
    assert ran.certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    (gap,) = ran.certificate.gaps
    assert gap.what == "what b would have said, to whom a wanted to hand the task"
    assert gap.blocks_approval


async def test_who_is_reached_after_all_leaves_no_gap(toybox):
    def wanting(brief):
        other = "b" if brief.agent.name == "a" else "a"
        if len(brief.chain) == 3:
            return Conclude("reached", stance=Stance.FOR)
        refused = yield HandOff(other, "toys", "it knows", "nothing")
        assert refused.reasons
        yield calls("look", text="something new")
        yield HandOff(other, "toys", "it knows", "nothing")

    toybox.tool("look")
    toybox.agent("a", wanting)
    toybox.agent("b", wanting)
    ran = await toybox.run("a")
    assert (len(ran.certificate.handoffs), ran.certificate.gaps) == (3, ())


@pytest.mark.both_databases
@pytest.mark.parametrize(("said", "hops"), [(GO_ON, 3), (DO_NOT, 2)])
async def test_where_a_person_is_there_a_hop_in_a_circle_is_a_question_to_them(toybox, said, hops):
    toybox.tool("look")
    for name in "ab":
        toybox.agent(name, walking("abab", {0, 3}))
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "a")).run(is_attended=True)
        assert outcome.state is SessionState.WAITING
        (question,) = outcome.questions
        assert question.options == (GO_ON, DO_NOT)
        assert question.text == (
            "a would hand the task to b, but b has had the task, and nothing new was found or measured since. Shall it?"
        )
        assert len([row for row in await opened.sessions.timeline(outcome.session) if row.kind == "opened"]) == 3
        outcome = await (await opened.approvals.answer(question.id, said)).run(is_attended=True)
        certificate = await opened.certificates.read(outcome.certificate.id)
    assert len(certificate.handoffs) == hops
    assert certificate.gaps == ()
