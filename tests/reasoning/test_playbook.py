from __future__ import annotations

import importlib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

import esper_agents.reasoning
from esper_agents.domain.agent import Agent
from esper_agents.domain.agent_action import Ask, CallTools, Conclude, Consult, ToolCall, UserAnswer
from esper_agents.domain.frame import Brief, Turn
from esper_agents.domain.ledger import Refusal
from esper_agents.domain.project import GitRevision
from esper_agents.domain.status import QuestionType, Stance
from esper_agents.domain.task import Task
from esper_agents.errors import DriftError, ReasonerError
from esper_agents.reasoning.playbook import PlaybookReasoner, load_playbooks, source_of, without_playbook

pytestmark = pytest.mark.anyio
FOLDER = Path(esper_agents.reasoning.__file__).parent / "playbooks"
AGENT = Agent("toy", "", "inherit", None, (), "toys", (), (), (), (), "", "toy.md", "0" * 64, ())
BRIEF = Brief(
    agent=AGENT,
    task=Task("review this", ("train.py",), QuestionType.APPROVAL, "review"),
    project="toy",
    revision=GitRevision("", "", "", "", False, ()),
    handoff=None,
    chain=(),
    question="",
    findings=(),
    evidence=(),
    notes=(),
    tools=(),
    agents=("toy",),
)
YES = UserAnswer("qst_1", "yes", "somebody")


def silent(_):
    return


def asking(_brief):
    first = yield Ask("first?")
    second = yield Ask(f"second, after {first.text}?")
    return Conclude(second.text)


async def moves(reasoner, *results):
    """Play on with these results, and return every move that was made."""
    turns, made = [], []
    for result in (*results, None):
        made.append((await reasoner.next_move(tuple(turns), silent)).move)
        turns.append(Turn(made[-1], {}, result))
    return made


async def test_a_playbook_is_fed_the_result_of_each_move():
    assert await moves(PlaybookReasoner(asking, BRIEF), YES, YES) == [
        Ask("first?"),
        Ask("second, after yes?"),
        Conclude("yes"),
    ]


async def test_nothing_of_a_playbook_runs_before_the_first_move_is_asked_for():
    def never(_brief):
        raise AssertionError
        yield

    PlaybookReasoner(never, BRIEF)


async def test_asked_again_without_a_new_result_it_makes_the_same_move():
    reasoner = PlaybookReasoner(asking, BRIEF)
    assert (await reasoner.next_move((), silent)).move == (await reasoner.next_move((), silent)).move == Ask("first?")


async def test_another_one_goes_on_from_what_is_on_record():
    turns = (Turn(Ask("first?"), {}, YES), Turn(Ask("second, after yes?"), {}, YES))
    assert (await PlaybookReasoner(asking, BRIEF).next_move(turns, silent)).move == Conclude("yes")


@pytest.mark.parametrize(
    "recorded",
    [
        Ask("another?"),
        Ask("first?", ("yes", "no")),
        Consult("toy", "first?"),
        Conclude("first?"),
        CallTools((ToolCall("look", {}),)),
    ],
)
async def test_a_recorded_move_that_it_would_not_make_is_drift(recorded):
    with pytest.raises(DriftError, match="the playbook of 'toy' has changed since this session started"):
        await PlaybookReasoner(asking, BRIEF).next_move((Turn(recorded, {}, YES),), silent)


async def test_arguments_count_for_drift_and_their_order_does_not():
    def calling(_brief):
        yield CallTools((ToolCall("look", {"a": 1, "b": [2]}),))
        return Conclude("x")

    def recorded(**arguments):
        return (Turn(CallTools((ToolCall("look", arguments),)), {}, ()),)

    assert (await PlaybookReasoner(calling, BRIEF).next_move(recorded(a=1, b=[2]), silent)).move == Conclude("x")
    with pytest.raises(DriftError):
        await PlaybookReasoner(calling, BRIEF).next_move(recorded(a=1, b=[3]), silent)


async def test_a_refusal_reaches_the_playbook():
    def listening(_brief):
        refused = yield Ask("")
        return Conclude(refused.reasons[0])

    assert await moves(PlaybookReasoner(listening, BRIEF), Refusal(("the question is empty",))) == [
        Ask(""),
        Conclude("the question is empty"),
    ]


async def test_a_playbook_that_has_nothing_more_to_say_to_a_refused_conclusion_says_it_again():
    def stubborn(_brief):
        yield Ask("first?")
        return Conclude("x")

    refused = Refusal(("no evidence",))
    made = await moves(PlaybookReasoner(stubborn, BRIEF), YES, refused, refused)
    assert made == [Ask("first?"), Conclude("x"), Conclude("x"), Conclude("x")]


async def test_a_playbook_that_ends_without_a_conclusion_says_what_to_mend():
    def endless(_brief):
        yield Ask("first?")

    with pytest.raises(ReasonerError, match="ends without a conclusion"):
        await moves(PlaybookReasoner(endless, BRIEF), YES)


def files():
    return sorted(path for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def test_every_file_beside_the_loader_is_the_playbook_of_an_agent_that_exists():
    from esper_agents.agents.registry import load_registry

    agents = load_registry(None).agents
    found = load_playbooks()
    assert files()
    for path in files():
        name = path.stem.replace("_", "-")
        assert name in agents
        assert found[name].kind == "playbook"
        assert found[name].sha256 == sha256(path.read_bytes()).hexdigest()
        assert found[name].provider.startswith("esper-agents ")


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
async def test_without_any_code_every_playbook_of_ours_says_so_and_stays_undecided(path):
    play = importlib.import_module(f"esper_agents.reasoning.playbooks.{path.stem}").play
    brief = replace(BRIEF, task=replace(BRIEF.task, paths=()))
    move = (await PlaybookReasoner(play, brief).next_move((), silent)).move
    assert isinstance(move, Conclude)
    assert any(gap.blocks_approval for gap in move.gaps)
    assert all(gap.command for gap in move.gaps)


def test_a_playbook_that_a_program_registers_goes_before_ours():
    found = load_playbooks({"pytorch-expert": asking, "toy": asking})
    assert found["toy"].provider == found["pytorch-expert"].provider == "registered by the program"
    assert found["toy"].sha256 == found["pytorch-expert"].sha256 != load_playbooks()["pytorch-expert"].sha256


def test_playbooks_with_other_source_have_other_digests():
    def other(_brief):
        yield Ask("other?")
        return Conclude("x")

    assert source_of(asking, "x").sha256 == source_of(asking, "y").sha256 != source_of(other, "x").sha256


async def test_without_a_playbook_an_agent_says_what_it_was_given_and_who_should_act():
    move = (await without_playbook().build(BRIEF).next_move((), silent)).move
    assert move.stance is Stance.UNDECIDED
    assert "'review this'" in move.summary
    assert "train.py" in move.summary
    assert move.gaps[0].blocks_approval
    assert move.next_steps == ("a person who knows toys answers: review this",)


async def test_without_a_playbook_a_consulted_agent_names_the_question_it_was_asked():
    move = (await without_playbook().build(replace(BRIEF, question="is it fast?")).next_move((), silent)).move
    assert "is it fast?" in move.gaps[0].what
