from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.certificates.statement import digest_of_value as digest
from esper_agents.domain.agent import Agent
from esper_agents.domain.agent_action import (
    Ask,
    CallTools,
    Conclude,
    Consult,
    HandOff,
    ToolCall,
    ToolReport,
    UserAnswer,
)
from esper_agents.domain.certificate import Definition
from esper_agents.domain.codec import encode
from esper_agents.domain.evidence import CallOutcome, Evidence, Risk
from esper_agents.domain.handoff import Handoff
from esper_agents.domain.ledger import (
    ActionDecided,
    CallStarted,
    CertificateIssued,
    FrameConcluded,
    FrameOpened,
    LedgerRow,
    Refusal,
    RowKey,
    RowKind,
    SessionCancelled,
    TaskHandedOff,
    UserQuestion,
)
from esper_agents.domain.project import GitRevision
from esper_agents.domain.route import Route, RouteOutcome
from esper_agents.domain.session import SessionState, Submission
from esper_agents.domain.status import QuestionType, Stance, Status
from esper_agents.domain.task import Task
from esper_agents.domain.verdict import Ceiling, Verdict
from esper_agents.orchestration.next_node import GraphNode, where
from esper_agents.orchestration.session_projection import SessionProjection

AGENT = Agent("toy", "", "inherit", None, (), "", (), (), (), (), "", "toy.md", "0" * 64, ())
DEFINITION = Definition("toy", "0" * 64, "playbook", "0" * 64, "toys 1")
VERDICT = Verdict(
    QuestionType.APPROVAL, Ceiling(Stance.FOR, Status.APPROVED, (), "0" * 64), Stance.FOR, Status.APPROVED, "fine", ()
)
SUBMISSION = Submission(
    Task("review this", (), QuestionType.APPROVAL, "review"),
    "toy",
    GitRevision("", "", "", "", False, ()),
    {},
    "somebody",
)
ROUTES = {RowKind.ROUTED: RouteOutcome.ASSIGNED, RowKind.REFUSED: RouteOutcome.REFUSED}
HANDOFF = Handoff("toy", "toy", "", "", "", (), (), (), (), (), 1)
REPORT = ToolReport(
    Evidence(
        *("ev_1", "look", "toys 1", Risk.LOW, True, {}, digest({}), CallOutcome.COMPLETED),
        *("", {}, digest({}), (), (), "", 0, ""),
    ),
    (),
)
MOVES = [
    CallTools((ToolCall("look", {}),)),
    CallTools((ToolCall("look", {}), ToolCall("look", {}))),
    Ask("why?"),
    Consult("toy", "why?"),
    HandOff("toy", "", "", ""),
    Conclude("done"),
]


def row(kind, body, frame=0, step=0, call=0):
    return RowKey(frame, step, call, kind), encode(body)


def begun():
    return row(RowKind.SUBMITTED, SUBMISSION)


def routed(kind=RowKind.ROUTED):
    return row(kind, Route(ROUTES[kind], "toy" if kind is RowKind.ROUTED else "", (), ""))


def opened(frame, parent=0, parent_step=0):
    return row(RowKind.OPENED, FrameOpened(AGENT, DEFINITION, parent, parent_step, "", None, ()), frame)


def concluded(frame, verdict=VERDICT):
    return row(RowKind.CONCLUDED, FrameConcluded("crt_1" if verdict else "", (), verdict), frame)


def ledger(*rows):
    return [LedgerRow(number, key, "2027-01-15T08:00:00.000Z", body) for number, (key, body) in enumerate(rows, 1)]


def history(*rows):
    return SessionProjection("ses_1", ledger(*rows))


of_turns = st.one_of(
    st.sampled_from(
        [
            (RowKind.DECIDING, {}),
            (RowKind.MOVE_REFUSED, Refusal(("no",))),
            (RowKind.ASKED, UserQuestion("qst_1", "?", (), "", {}, "")),
            (RowKind.ANSWERED, UserAnswer("qst_1", "yes", "somebody")),
            (RowKind.CALLING, CallStarted("ev_1", "look", digest({}))),
            (RowKind.CALLED, REPORT),
        ]
    ),
    st.sampled_from(MOVES).map(lambda move: (RowKind.MOVED, ActionDecided(move, {}))),
)


@st.composite
def histories(draw):
    """Any rows that a ledger can hold: frames are opened in order, and rows belong to frames that were opened."""
    rows = [begun()]
    kinds = draw(st.lists(st.sampled_from(["route", "open", "turn", "end", "certify", "cancel"]), max_size=25))
    frames = 0
    for kind in kinds:
        if kind == "route":
            rows.append(routed(draw(st.sampled_from(list(ROUTES)))))
        elif kind == "open":
            parent = draw(st.integers(0, frames))
            frames += 1
            rows.append(opened(frames, parent, draw(st.integers(1, 3)) if parent else 0))
        elif kind == "turn" and frames:
            place = draw(st.integers(1, frames)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
            rows.append(row(*draw(of_turns), *place))
        elif kind == "end" and frames:
            frame = draw(st.integers(1, frames))
            ends = [
                concluded(frame),
                concluded(frame, None),
                row(RowKind.HANDED_OFF, TaskHandedOff(HANDOFF, ()), frame),
            ]
            rows.append(draw(st.sampled_from(ends)))
        elif kind == "certify":
            rows.append(row(RowKind.CERTIFIED, CertificateIssued("crt_1", "0" * 64)))
        elif kind == "cancel":
            rows.append(row(RowKind.CANCELLED, SessionCancelled("somebody")))
    return tuple(rows)


@given(histories())
def test_every_ledger_has_a_place(rows):
    assert where(history(*rows)) in set(GraphNode)


@given(histories())
def test_what_is_over_or_waits_is_at_the_end(rows):
    found = history(*rows)
    if found.state is not SessionState.OPEN:
        assert where(found) is GraphNode.CERTIFY


@given(histories())
def test_specialists_work_only_while_there_is_no_conclusion(rows):
    found = history(*rows)
    if where(found) is GraphNode.SPECIALIST:
        assert found.conclusion is None
        assert found.route is not None
        assert found.frames


@given(histories())
def test_a_ledger_read_row_by_row_says_what_it_says_read_at_once(rows):
    whole, grown = SessionProjection("ses_1", ledger(*rows)), SessionProjection("ses_1")
    for each in ledger(*rows):
        grown.add([each])
    assert (grown.state, where(grown), grown.seq) == (whole.state, where(whole), whole.seq)
    assert grown.questions == whole.questions
    assert [frame.settled for frame in grown.frames] == [frame.settled for frame in whole.frames]


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ((), GraphNode.ROUTE),
        ((routed(RowKind.REFUSED),), GraphNode.CERTIFY),
        ((routed(), opened(1)), GraphNode.SPECIALIST),
        ((routed(), opened(1), concluded(1)), GraphNode.CERTIFY),
        ((routed(), opened(1), opened(2, 1, 1), concluded(2, None)), GraphNode.SPECIALIST),
        ((routed(), opened(1), row(RowKind.CANCELLED, SessionCancelled("x"))), GraphNode.CERTIFY),
        ((row(RowKind.CANCELLED, SessionCancelled("x")),), GraphNode.CERTIFY),
    ],
    ids=["new", "refused", "at work", "concluded", "answered", "cancelled", "cancelled before routing"],
)
def test_a_session_is_where_its_ledger_says(rows, place):
    assert where(history(begun(), *rows)) is place


def turn(*rows, move=MOVES[1]):
    return history(begun(), routed(), opened(1), row(RowKind.MOVED, ActionDecided(move, {}), 1, 1), *rows)


def asked(call):
    return row(RowKind.ASKED, UserQuestion(f"qst_{call}", "?", (), "look", {}, digest({})), 1, 1, call)


def answered(call):
    return row(RowKind.ANSWERED, UserAnswer(f"qst_{call}", "approve", "somebody"), 1, 1, call)


def test_a_session_waits_when_the_first_call_without_a_result_waits_for_an_answer():
    first, second = (row(RowKind.CALLED, REPORT, 1, 1, number) for number in range(2))
    assert turn(asked(0)).state is SessionState.WAITING
    assert turn(asked(1)).state is SessionState.OPEN
    assert turn(asked(1), first).state is SessionState.WAITING
    assert turn(asked(0), second).state is SessionState.WAITING
    assert turn(asked(0), asked(1)).state is SessionState.WAITING
    assert turn(asked(0), asked(1), answered(0)).state is SessionState.OPEN
    assert turn(asked(0), asked(1), answered(1)).state is SessionState.WAITING
    assert turn(asked(0), second, answered(0)).state is SessionState.OPEN


def test_the_questions_of_a_session_are_those_without_an_answer():
    assert [question.id for question in turn(asked(0), asked(1)).questions] == ["qst_0", "qst_1"]
    assert [question.id for question in turn(asked(0), asked(1), answered(0)).questions] == ["qst_1"]
    assert turn(asked(0), answered(0), asked(1), answered(1)).questions == ()


def test_a_turn_is_settled_when_every_call_has_its_report():
    called = [row(RowKind.CALLED, REPORT, 1, 1, number) for number in range(2)]
    assert turn(called[1]).frames[0].settled == ()
    assert [each.result for each in turn(*called).frames[0].settled] == [(REPORT, REPORT)]


def test_a_refused_move_is_settled_by_its_refusal():
    found = turn(row(RowKind.MOVE_REFUSED, Refusal(("no",)), 1, 1))
    assert [each.result for each in found.frames[0].settled] == [Refusal(("no",))]
