"""What models have used, read from the rows of sessions, on both databases."""

from __future__ import annotations

import pytest
from briefs import agent, opened
from storage_samples import PROJECT

from esper_agents.domain.agent_action import CallTools
from esper_agents.domain.ledger import ActionDecided, RowKey, RowKind
from esper_agents.domain.project import Project
from esper_agents.domain.usage import Expense
from esper_agents.storage import ledger
from esper_agents.storage import model_usage as module
from esper_agents.storage.model_requests import exchanges, keep_exchange
from esper_agents.storage.model_usage import ModelUsage, expenses

OTHER = Project("/elsewhere/toy", "toy", "toy-ba9876543210", is_git=True)


def turn(tokens, *, model="claude-opus-5-5", money=1_000, **more):
    """Return the record of a model's turn."""
    usage = {"fresh": tokens, "written": 0, "cached": 0, "output": 0}
    spent = {"tokens": tokens, "money": money}
    text = {"type": "text", "text": 'a "quoted" \u2028 \x00 text'}
    return {"model": model, "content": [text], "usage": usage, "spent": spent, "is_priced": True, **more}


@pytest.fixture
def play(store, create):
    """Return what makes a session of turns, each as a frame with the records of its turns."""

    def made(*frames, project=PROJECT):
        held = create(project=project)
        for number, records in enumerate(frames, 1):
            rows = [(RowKey(number, 0, 0, RowKind.OPENED), opened())]
            rows += [
                (RowKey(number, step, 0, RowKind.MOVED), ActionDecided(CallTools(()), record))
                for step, record in enumerate(records, 1)
            ]
            ledger.append(store, held, rows)
        return held.session

    return made


def test_turns_are_added_up_for_each_agent_of_each_session_and_each_model(store, play):
    one = play([turn(10), turn(5, money=500)], [turn(7, model="claude-haiku-5-5")])
    other = play([turn(3)])
    assert expenses(store, PROJECT.key) == (
        ModelUsage(one, agent().name, "claude-opus-5-5", Expense(2, fresh=15, money=1_500)),
        ModelUsage(one, agent().name, "claude-haiku-5-5", Expense(1, fresh=7, money=1_000)),
        ModelUsage(other, agent().name, "claude-opus-5-5", Expense(1, fresh=3, money=1_000)),
    )


def test_turns_that_no_model_took_are_no_turns(store, play):
    play([{}, {"content": []}, {"spent": {"tokens": 5, "money": 5}}])
    assert expenses(store, PROJECT.key) == ()


def test_a_price_that_is_not_known_is_told(store, play):
    play([turn(1, is_priced=False), turn(1)])
    ((spent),) = expenses(store, PROJECT.key)
    assert spent.expense.unpriced == 1


def test_projects_do_not_pay_for_one_another(store, play):
    theirs = play([turn(1)], project=OTHER)
    assert expenses(store, PROJECT.key) == ()
    assert expenses(store, PROJECT.key, [theirs]) == ()


@pytest.mark.parametrize("most", [0, 200])
def test_only_the_sessions_that_are_named_count(store, play, monkeypatch, most):
    monkeypatch.setattr(module, "_MOST_SINGLY", most)
    made = [play([turn(number)]) for number in (1, 2, 3)]
    assert [expense.session for expense in expenses(store, PROJECT.key, made[:2])] == made[:2]
    assert expenses(store, PROJECT.key, []) == ()


def test_what_was_asked_outside_of_sessions_is_told_after_them_under_its_purpose(store, play):
    one = play([turn(10)])
    for number in (1, 2):
        keep_exchange(store, PROJECT, "retrospect", "ab" * 32, turn(number))
    keep_exchange(store, OTHER, "retrospect", "ab" * 32, turn(100))
    assert expenses(store, PROJECT.key) == (
        ModelUsage(one, agent().name, "claude-opus-5-5", Expense(1, fresh=10, money=1_000)),
        ModelUsage("retrospect", "retrospect", "claude-opus-5-5", Expense(2, fresh=3, money=2_000)),
    )
    assert [expense.session for expense in expenses(store, PROJECT.key, [one])] == [one]


def test_an_exchange_is_found_again_by_its_request_as_it_was_kept(store):
    kept = [keep_exchange(store, PROJECT, "retrospect", sha256, turn(1)) for sha256 in ("ab" * 32, "cd" * 32)]
    assert exchanges(store, PROJECT.key) == tuple(kept)
    assert exchanges(store, PROJECT.key, "cd" * 32) == (kept[1],)
    assert exchanges(store, OTHER.key) == ()
