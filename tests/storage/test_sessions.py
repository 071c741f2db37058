from __future__ import annotations

import pytest
from sqlalchemy import text
from storage_samples import PROJECT, submission

from esper_agents.domain.ledger import RowKey, RowKind
from esper_agents.domain.origin import OriginKind, SessionOrigin
from esper_agents.domain.project import Project
from esper_agents.domain.session import SessionState
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.storage import ledger, session_search_index, sessions

OTHER = Project("/elsewhere/toy", "toy", "toy-ba9876543210", is_git=True)


def test_a_session_is_listed_as_it_was_made(store, create):
    held = create("review these 2 files")
    (found,) = sessions.listing(store, PROJECT.key)
    assert (found.id, found.request, found.state) == (held.session, "review these 2 files", SessionState.OPEN)
    assert (found.agent, found.certificate) == ("", "")
    assert found.created_at == found.changed_at == "2027-01-15T08:00:00.123Z"


def test_a_listing_is_newest_first_and_as_long_as_asked(store, create):
    made = [create(str(number)).session for number in range(4)]
    assert [each.id for each in sessions.listing(store, PROJECT.key)] == made[::-1]
    assert [each.id for each in sessions.listing(store, PROJECT.key, limit=2)] == made[:1:-1]


def test_projects_do_not_see_the_sessions_of_one_another(store, create):
    mine, theirs = create(), create(project=OTHER)
    assert [each.id for each in sessions.listing(store, PROJECT.key)] == [mine.session]
    with pytest.raises(UsageError, match="belongs to the project in '/elsewhere/toy'") as refused:
        sessions.find(store, PROJECT.key, theirs.session)
    assert refused.value.remedy == "use --project /elsewhere/toy"
    with pytest.raises(NotFoundError):
        sessions.find(store, PROJECT.key, theirs.session[-12:])
    assert sessions.find(store, OTHER.key, "latest").id == theirs.session


def test_a_session_is_found_by_its_identifier_its_end_or_as_the_latest(store, create):
    first, last = create().session, create().session
    for wanted in (first, first[-12:], f"ses_{first[-12:]}"):
        assert sessions.find(store, PROJECT.key, wanted).id == first
    assert sessions.find(store, PROJECT.key, "latest").id == last


def test_what_fits_two_sessions_names_none(store, create):
    first, last = create().session, create().session
    shared = next(first[:length] for length in range(len(first), 0, -1) if last.startswith(first[:length]))
    with pytest.raises(UsageError, match="matches 2 sessions") as refused:
        sessions.find(store, PROJECT.key, shared)
    assert first in refused.value.remedy
    assert last in refused.value.remedy


@pytest.mark.sample(4)
@pytest.mark.parametrize("wanted", ["", "0", "ses_", "ses_" + "f" * 32, "%", "_" * 36])
def test_what_names_no_session_is_refused_with_the_way_to_find_one(store, create, wanted):
    create()
    with pytest.raises(NotFoundError) as refused:
        sessions.find(store, PROJECT.key, wanted)
    assert refused.value.what == "session"
    assert "did you mean" in refused.value.remedy or refused.value.remedy == "run `esper sessions list`"


def test_without_any_session_there_is_no_latest(store):
    with pytest.raises(NotFoundError):
        sessions.find(store, PROJECT.key, "latest")


def test_what_people_write_comes_back_as_they_wrote_it(store, create):
    request = "pr\u00fcfe 🙂 'quoted' \"\\ ; DROP TABLE session; --\u2028\n"
    create(request)
    assert sessions.find(store, PROJECT.key, "latest").request == request


def wanted(**which):
    return sessions.SessionFilter(**which)


def test_sessions_are_listed_by_state_agent_and_when_something_last_happened(store, clock, create):
    first, second, third = (create(str(number)) for number in range(3))
    for held, agent, state in (
        (first, "a", SessionState.WAITING),
        (second, "a", SessionState.DONE),
        (third, "b", SessionState.OPEN),
    ):
        with store.writing() as transaction:
            ledger.append_within(transaction, held, [], agent=agent, state=state)
    clock.now_ms += 5_000
    with store.writing() as transaction:
        ledger.append_within(transaction, first, [])

    def found(**which):
        return [each.id for each in sessions.listing(store, PROJECT.key, wanted=wanted(**which))]

    assert found(states=(SessionState.WAITING, SessionState.OPEN)) == [third.session, first.session]
    assert found(agent="a") == [second.session, first.session]
    assert found(agent="a", states=(SessionState.DONE,)) == [second.session]
    assert found(since="2027-01-15T08:00:05") == [first.session]
    # The last that changed comes first.
    assert found(since="2027-01-15") == [first.session, third.session, second.session]
    assert found(agent="nobody") == []


def test_a_session_is_found_by_words_of_its_request_whatever_their_case_and_accents(store, create):
    first = create("Prüfe die Schleife: loss.backward() zweimal?")
    create("something else")
    for words in ("prufe", "PRÜFE schleife", "loss.backward", "zweimal"):
        assert [each.id for each in sessions.search(store, PROJECT.key, words)] == [first.session]
    # A word with points stands for words in a row.
    assert sessions.search(store, PROJECT.key, "backward.loss") == ()
    assert sessions.search(store, PROJECT.key, "schlei") == ()


def test_found_sessions_are_newest_first_and_as_many_as_asked(store, create):
    made = [create("review this").session for _ in range(4)]
    assert [each.id for each in sessions.search(store, PROJECT.key, "review")] == made[::-1]
    assert [each.id for each in sessions.search(store, PROJECT.key, "review", limit=2)] == made[:1:-1]


def test_a_conclusion_takes_the_place_of_what_a_session_was_found_by_and_keeps_the_request(store, create):
    held = create("review this")
    for summary in ("the gradients leak", "nothing leaks"):
        with store.writing() as transaction:
            session_search_index.write(transaction, held.session, summary)
    assert [each.id for each in sessions.search(store, PROJECT.key, "nothing review")] == [held.session]
    assert sessions.search(store, PROJECT.key, "gradients") == ()


def test_projects_do_not_find_the_sessions_of_one_another(store, create):
    create("review this", project=OTHER)
    assert sessions.search(store, PROJECT.key, "review") == ()


@pytest.mark.sample(4)
@pytest.mark.parametrize("words", ["", " ", "...", "\x00", "-- '"])
def test_what_holds_no_word_is_refused(store, create, words):
    create()
    with pytest.raises(UsageError, match="no search terms"):
        sessions.search(store, PROJECT.key, words)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "words", ['"review', "review OR", "review*", "NEAR(review)", "review & !this", "words:review", "\x00review"]
)
def test_words_are_never_a_query(store, create, words):
    create("review or near words this")
    assert len(sessions.search(store, PROJECT.key, words)) in {0, 1}


def test_what_people_write_is_searched_whatever_it_is(store, create):
    create("a\u2028b \u202e 🙂 " + "word " * 30_000)
    assert len(sessions.search(store, PROJECT.key, "word b")) == 1


def test_words_are_made_again_from_the_other_rows(store, create):
    made = [create(f"review number {number}").session for number in range(3)]
    with store.writing() as transaction:
        transaction.connection.execute(text("DELETE FROM session_text"))
    # Sessions from before there was any full text are found all the same.
    assert [each.id for each in sessions.search(store, PROJECT.key, "review")] == made[::-1]
    with store.writing() as transaction:
        assert session_search_index.rebuild(transaction) == session_search_index.rebuild(transaction) == 3
    assert [each.id for each in sessions.search(store, PROJECT.key, "number 1")] == [made[1]]


def test_a_fork_copies_the_rows_named_with_their_times_and_nothing_else(store, clock, create):
    held = create()
    for step in (1, 2, 3):
        clock.now_ms += 1_000
        ledger.append(store, held, [(RowKey(1, step, 0, RowKind.DECIDING), {})])
    with store.reading() as connection:
        rows = ledger.rows(connection, held.session)
    clock.now_ms += 1_000
    origin = SessionOrigin(OriginKind.FORKED, held.session)
    copied = [row.seq for row in rows[1:3]]
    fork = sessions.fork(store, PROJECT, submission("other"), origin, copied, agent="a")
    with store.reading() as connection:
        made = ledger.rows(connection, fork.session)
        assert ledger.rows(connection, held.session) == rows
    assert [(each.key, each.at, each.body) for each in made[1:]] == [
        (each.key, each.at, each.body) for each in rows[1:3]
    ]
    assert made[0].key.kind is RowKind.SUBMITTED
    assert [each.seq for each in made] == sorted(each.seq for each in made)
    found = sessions.find(store, PROJECT.key, fork.session)
    assert (found.origin, found.agent, found.request) == (origin, "a", "other")
    # It can be written to at once.
    ledger.append(store, fork, [(RowKey(1, 3, 0, RowKind.DECIDING), {})])


def test_a_lease_that_was_edited_by_hand_does_not_keep_sessions_from_being_listed(store, create):
    held = create()
    if store.where.startswith("postgresql"):
        pytest.skip("PostgreSQL holds a column to its type")
    with store.writing() as transaction:
        transaction.connection.execute(text("UPDATE session SET expires_ms = 'soon', fence = 'many'"))
    assert [(each.id, each.is_owned) for each in sessions.listing(store, PROJECT.key)] == [(held.session, False)]
