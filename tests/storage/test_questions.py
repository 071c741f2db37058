from __future__ import annotations

from dataclasses import replace

import pytest
from storage_samples import PROJECT

from esper_agents.domain.agent_action import UserAnswer
from esper_agents.domain.identifier import Prefix, new_id
from esper_agents.domain.ledger import RowKey, RowKind, UserQuestion
from esper_agents.domain.session import SessionState
from esper_agents.storage import ledger, questions

OTHER = replace(PROJECT, root="/elsewhere/else", key="else-0123456789ab")


def ask(store, lease, call=0, *, text="may it?"):
    question = UserQuestion(new_id(Prefix.QUESTION), text, ("approve", "deny"), "write", {}, "")
    key = RowKey(1, 1, call, RowKind.ASKED)
    ledger.append(store, lease, [(key, question)], state=SessionState.WAITING)
    return question.id


def answer(store, lease, question, call=0, state=SessionState.OPEN):
    row = RowKey(1, 1, call, RowKind.ANSWERED), UserAnswer(question, "deny", "ann")
    ledger.append(store, lease, [row], state=state)


def found(store, project=PROJECT):
    with store.reading() as connection:
        return [each.question for each in questions.unanswered(connection, project.key)]


def ending(store, end, project=PROJECT):
    with store.reading() as connection:
        return [each.question for each in questions.ending(connection, project.key, end)]


def test_questions_without_an_answer_are_found_in_their_order_with_where_they_were_asked(store, create, clock):
    leases = [create(), create()]
    asked = [ask(store, lease) for lease in leases]
    asked.append(ask(store, leases[0], 1))
    with store.reading() as connection:
        told = questions.unanswered(connection, PROJECT.key)
    assert [each.question for each in told] == asked
    assert [each.session for each in told] == [leases[0].session, leases[1].session, leases[0].session]
    assert {(each.frame, each.at) for each in told} == {(1, "2027-01-15T08:00:00.123Z")}


def test_one_answer_of_two_leaves_the_other_question_open(store, held):
    asked = [ask(store, held, call) for call in range(2)]
    answer(store, held, asked[1], 1)
    assert found(store) == asked[:1]


@pytest.mark.sample(2)
@pytest.mark.parametrize("state", [SessionState.DONE, SessionState.CANCELLED, SessionState.REFUSED])
def test_a_session_that_is_over_asks_nothing_any_more(store, held, state):
    asked = [ask(store, held, call) for call in range(2)]
    answer(store, held, asked[1], 1, state=state)
    assert found(store) == []
    assert ending(store, asked[0][-12:]) == asked[:1]


def test_the_questions_of_another_project_are_not_found_and_its_folder_is(store, create):
    asked = ask(store, create(project=OTHER))
    assert found(store) == []
    assert ending(store, asked[-12:]) == []
    with store.reading() as connection:
        assert questions.project_of(connection, asked) == OTHER.root
        assert questions.project_of(connection, new_id(Prefix.QUESTION)) is None


def test_a_question_that_only_speaks_of_another_is_not_taken_for_it(store, held):
    first = ask(store, held)
    second = ask(store, held, 1, text=f'is "{first}" meant?')
    assert ending(store, first[-12:]) == [first]
    assert sorted(ending(store, first[-1])) == sorted(each for each in (first, second) if each.endswith(first[-1]))
