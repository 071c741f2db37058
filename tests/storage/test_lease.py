from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, update

from esper_agents.domain.ledger import RowKey, RowKind
from esper_agents.domain.session import SessionState
from esper_agents.errors import BusyError, LeaseLostError
from esper_agents.storage import lease, ledger, sessions
from esper_agents.storage.lease import LEASE_MS
from esper_agents.storage.owner import is_dead, this_process
from esper_agents.storage.tables import session as table

DECIDING = [(RowKey(1, 1, 0, RowKind.DECIDING), {})]


def columns(store, held):
    with store.reading() as connection:
        return connection.execute(select(table).where(table.c.id == held.session)).one()


def set_columns(store, held, **values):
    with store.writing() as transaction:
        transaction.connection.execute(update(table).where(table.c.id == held.session).values(**values))


def count(store, held):
    with store.reading() as connection:
        return ledger.count(connection, held.session)


def test_a_new_session_is_held_by_who_made_it(store, held):
    found = columns(store, held)
    assert (found.owner, found.fence, found.attempts) == (this_process(), 1, 1)


def test_a_session_with_a_living_owner_is_busy(store, held):
    with pytest.raises(BusyError, match="is being worked on by another process"):
        lease.claim(store, held.session)
    assert columns(store, held).fence == held.fence


def test_a_lease_that_has_run_out_can_be_taken_and_its_fence_grows(store, held, clock):
    clock.now_ms += LEASE_MS - 1
    with pytest.raises(BusyError):
        lease.claim(store, held.session)
    clock.now_ms += 1
    taken = lease.claim(store, held.session)
    assert taken.fence == held.fence + 1
    assert columns(store, held).attempts == 2


def test_who_lost_the_lease_can_not_write_any_more(store, held, clock):
    clock.now_ms += LEASE_MS
    lease.claim(store, held.session)
    before = count(store, held)
    with pytest.raises(LeaseLostError, match="was taken over by another process"):
        ledger.append(store, held, DECIDING)
    assert count(store, held) == before


def test_a_lease_that_has_run_out_does_not_write_even_when_nobody_took_it(store, held, clock):
    clock.now_ms += LEASE_MS
    with pytest.raises(LeaseLostError, match="was not renewed for 30 s") as lost:
        ledger.append(store, held, DECIDING)
    assert f"esper resume {held.session}" in lost.value.remedy


def test_a_heartbeat_keeps_a_lease(store, held, clock):
    for _ in range(5):
        clock.now_ms += LEASE_MS - 1
        lease.beat(store, held)
    ledger.append(store, held, DECIDING)


def test_a_heartbeat_never_revives_a_lease_that_has_run_out(store, held, clock):
    clock.now_ms += LEASE_MS
    with pytest.raises(LeaseLostError):
        lease.beat(store, held)
    assert columns(store, held).expires_ms == clock.now_ms
    assert lease.claim(store, held.session).fence == held.fence + 1


def test_a_heartbeat_of_an_older_owner_does_not_extend_the_lease_of_the_newer(store, held, clock):
    clock.now_ms += LEASE_MS
    lease.claim(store, held.session)
    expires = columns(store, held).expires_ms
    clock.now_ms += 1
    with pytest.raises(LeaseLostError):
        lease.beat(store, held)
    assert columns(store, held).expires_ms == expires


def test_a_lease_given_back_can_be_taken_at_once(store, held):
    lease.release(store, held, SessionState.WAITING)
    assert columns(store, held).state is SessionState.WAITING
    assert lease.claim(store, held.session).fence == held.fence + 1


def test_who_lost_the_lease_can_not_give_it_back_either(store, held, clock):
    clock.now_ms += LEASE_MS
    taken = lease.claim(store, held.session)
    lease.release(store, held, SessionState.CANCELLED)
    assert columns(store, held).state is SessionState.OPEN
    ledger.append(store, taken, DECIDING)


HOLD = """
import sys, time
from sqlalchemy import make_url
from esper_agents.storage import lease
from esper_agents.storage.store import Store

lease.claim(Store(make_url(sys.argv[1])), sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(store, held, database):
    """A process that holds the session."""
    lease.release(store, held, SessionState.OPEN)
    command = [sys.executable, "-c", HOLD, database.render_as_string(hide_password=False), held.session]
    process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_session_of_another_living_process_is_busy_and_of_a_dead_one_is_free_at_once(store, held, other, clock):
    clock.now_ms = columns(store, held).expires_ms - LEASE_MS
    with pytest.raises(BusyError):
        lease.claim(store, held.session)
    other.send_signal(signal.SIGSTOP)
    with pytest.raises(BusyError):
        lease.claim(store, held.session)
    other.send_signal(signal.SIGKILL)
    while not is_dead(columns(store, held).owner):  # the signal takes its time, and nobody has waited for the process
        os.sched_yield()
    assert lease.claim(store, held.session).fence == held.fence + 2


def test_an_owner_on_another_machine_is_never_known_to_be_dead(store, held, clock):
    set_columns(store, held, owner="elsewhere|boot|pid:[1]|1|1.00")
    with pytest.raises(BusyError):
        lease.claim(store, held.session)
    clock.now_ms += LEASE_MS
    lease.claim(store, held.session)


def test_another_process_with_the_same_number_is_another_owner(store, held):
    machine, number, started = this_process().rsplit("|", 2)
    assert is_dead(f"{machine}|{number}|{float(started) - 100:.2f}")
    assert not is_dead(this_process())
    set_columns(store, held, owner=f"{machine}|{number}|{float(started) - 100:.2f}")
    lease.claim(store, held.session)


@pytest.mark.parametrize("text", ["", "nonsense", "a|b", "a|b|c|d"])
def test_an_owner_that_can_not_be_read_is_not_known_to_be_dead(text):
    assert not is_dead(text)


def test_of_many_that_want_a_free_session_at_once_one_gets_it(store, held):
    lease.release(store, held, SessionState.OPEN)
    barrier, got, busy = threading.Barrier(6), [], []

    def want():
        barrier.wait()
        try:
            got.append(lease.claim(store, held.session))
        except BusyError as error:
            busy.append(error)

    threads = [threading.Thread(target=want) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(busy)) == (1, 5)
    assert columns(store, held).fence == got[0].fence == held.fence + 1


def test_nobody_can_take_a_lease_between_the_look_at_it_and_the_commit(store, held, clock):
    taken = []
    thread = threading.Thread(target=lambda: taken.append(lease.claim(store, held.session)))
    with store.writing() as transaction:
        lease.check(transaction, held)
        clock.now_ms += LEASE_MS
        thread.start()
        thread.join(0.3)
        assert taken == []
    thread.join()
    assert taken[0].fence == held.fence + 1


def test_who_wants_a_session_while_another_is_taking_it_finds_it_busy(store, held):
    lease.release(store, held, SessionState.OPEN)
    got, busy = [], []

    def want():
        try:
            got.append(lease.claim(store, held.session))
        except BusyError as error:
            busy.append(error)

    thread = threading.Thread(target=want)
    with store.writing() as transaction:
        lease.claim_within(transaction, held.session)
        thread.start()
        thread.join(0.3)
    thread.join()
    assert (got, len(busy)) == ([], 1)


def test_of_two_owners_that_write_in_turns_only_the_newer_one_adds_rows(store, held, clock):
    clock.now_ms += LEASE_MS
    newer = lease.claim(store, held.session)
    written, refused = [], []
    barrier = threading.Barrier(2)

    def write(owner, frame):
        barrier.wait()
        for step in range(1, 11):
            try:
                written.extend(ledger.append(store, owner, [(RowKey(frame, step, 0, RowKind.DECIDING), {})]).rows)
            except LeaseLostError as error:
                refused.append(error)

    threads = [threading.Thread(target=write, args=(owner, frame)) for owner, frame in ((held, 1), (newer, 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.key.frame for each in written} == {2}
    assert (len(written), len(refused)) == (10, 10)


def test_a_listing_says_which_sessions_are_being_worked_on(store, create, clock):
    # The listing asks the database for the time.
    with store.reading() as connection:
        from esper_agents.storage.store import database_clock

        clock.now_ms = database_clock(connection)
    owned, free = create(), create()
    lease.release(store, free, SessionState.WAITING)
    found = {each.id: each.is_owned for each in sessions.listing(store, "toy-0123456789ab")}
    assert found == {owned.session: True, free.session: False}
    with store.reading() as connection:
        assert lease.is_owned(connection, owned.session, clock.now_ms)
        assert not lease.is_owned(connection, owned.session, clock.now_ms + LEASE_MS)
        assert not lease.is_owned(connection, free.session, clock.now_ms)


def test_heartbeats_and_steps_of_one_owner_never_wait_for_each_other_in_a_ring(store, held):
    def beat():
        for _ in range(60):
            lease.beat(store, held)

    with ThreadPoolExecutor(2) as pool:
        beating = [pool.submit(beat) for _ in range(2)]
        for step in range(1, 61):
            ledger.append(store, held, [(RowKey(1, step, 0, RowKind.DECIDING), {})])
        for each in beating:
            each.result()
