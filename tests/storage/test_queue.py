from __future__ import annotations

import threading

import pytest
from sqlalchemy import update
from storage_samples import PROJECT, Clock, submission

from esper_agents.domain.project import Project
from esper_agents.domain.session import SessionState
from esper_agents.errors import BusyError
from esper_agents.storage import lease, queue, sessions
from esper_agents.storage.store import Store
from esper_agents.storage.tables import session

OTHER = Project("/somewhere/other", "other", "other-0123456789ab", is_git=False)
KEYS = (PROJECT.key, OTHER.key)


@pytest.fixture(autouse=True)
def frozen(clock, monkeypatch):
    monkeypatch.setattr(queue, "database_clock", clock)


def enqueued(store, project=PROJECT):
    return sessions.enqueue(store, project, submission())


def written(store, session_id, **columns):
    with store.writing() as transaction:
        transaction.connection.execute(update(session).where(session.c.id == session_id).values(**columns))


def test_a_queued_session_is_open_and_nobody_holds_it(store):
    name = enqueued(store)
    found = sessions.find(store, PROJECT.key, name)
    assert (found.state, found.is_owned, found.is_queued) == (SessionState.OPEN, False, True)


def test_the_oldest_is_taken_first_and_each_once(store):
    names = [enqueued(store), enqueued(store, OTHER), enqueued(store)]
    taken = [queue.claim_next(store, KEYS) for _ in range(4)]
    assert [each and each.lease.session for each in taken] == [*names, None]
    assert [each.project_key for each in taken[:3]] == [PROJECT.key, OTHER.key, PROJECT.key]
    for name in names:
        with pytest.raises(BusyError):
            lease.claim(store, name)


def test_only_sessions_of_the_projects_that_are_named_are_taken(store):
    enqueued(store, OTHER)
    assert queue.claim_next(store, [PROJECT.key]) is None
    assert queue.claim_next(store, []) is None
    assert [each.key for each in queue.queued_projects(store)] == [OTHER.key]


def test_what_a_person_runs_or_has_stopped_is_left_to_them(store, create):
    held = create()
    assert queue.claim_next(store, KEYS) is None
    lease.release(store, held, SessionState.OPEN)
    assert queue.claim_next(store, KEYS) is None
    assert queue.queued_projects(store) == ()


def test_a_session_whose_owner_fell_silent_is_taken_when_its_lease_is_over(store, held, clock):
    clock.now_ms += lease.LEASE_MS - 1
    assert queue.claim_next(store, KEYS) is None
    clock.now_ms += 1
    assert [each.key for each in queue.queued_projects(store)] == [PROJECT.key]
    taken = queue.claim_next(store, KEYS)
    assert (taken.lease.session, taken.lease.attempt) == (held.session, 2)
    assert taken.lease.fence > held.fence


def test_a_session_whose_owner_is_known_to_be_dead_is_taken_at_once(store, held):
    machine = held.owner.rsplit("|", 2)[0]
    written(store, held.session, owner=f"{machine}|999999999|1.00")
    assert queue.claim_next(store, KEYS).lease.session == held.session


@pytest.mark.sample(4)
@pytest.mark.parametrize("state", [each for each in SessionState if each is not SessionState.OPEN])
def test_what_waits_or_is_over_is_not_taken(store, state):
    written(store, enqueued(store), state=state)
    assert queue.claim_next(store, KEYS) is None


def test_what_was_given_back_is_taken_again_and_what_was_taken_off_is_not(store):
    name = enqueued(store)
    lease.release(store, queue.claim_next(store, KEYS).lease, SessionState.OPEN)
    again = queue.claim_next(store, KEYS)
    assert (again.lease.session, again.lease.attempt) == (name, 1)
    lease.release(store, again.lease, SessionState.OPEN)
    queue.dequeue(store, name)
    assert queue.claim_next(store, KEYS) is None


def test_what_is_passed_over_does_not_keep_others_waiting(store):
    first, second = enqueued(store), enqueued(store)
    assert queue.claim_next(store, KEYS, passed_over=[first]).lease.session == second
    assert queue.claim_next(store, KEYS, passed_over=[first]) is None
    assert queue.queued_projects(store, passed_over=[first]) == ()


def test_workers_that_take_at_once_never_get_the_same_session(database):
    clock = Clock()
    stores = [Store(database, clock=clock) for _ in range(6)]
    names = {enqueued(stores[0]) for _ in range(60)}
    taken, begin = [], threading.Barrier(len(stores))

    def work(store):
        begin.wait()
        # On PostgreSQL another may look at the last ones meanwhile: nothing to be had is then no end.
        misses = 0
        while misses < 20:
            found = queue.claim_next(store, KEYS)
            misses += found is None
            if found:
                taken.append(found.lease.session)

    threads = [threading.Thread(target=work, args=(each,)) for each in stores]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for each in stores:
        each.close()
    assert len(taken) == 60
    assert set(taken) == names
