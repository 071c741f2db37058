"""A lease table that somebody has written in, and clocks that jump: nobody writes who should not, nothing is stuck."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import select, text, update

from esper_agents.domain.ledger import RowKey, RowKind
from esper_agents.domain.session import SessionState
from esper_agents.errors import BusyError, LeaseLostError
from esper_agents.storage import lease, ledger
from esper_agents.storage.lease import LEASE_MS
from esper_agents.storage.owner import this_process
from esper_agents.storage.store import Store
from esper_agents.storage.tables import session as table

ELSEWHERE = "elsewhere|boot|pid:[1]|1|1"
DEAD = f"{this_process().rsplit('|', 1)[0]}|1"


def columns(store, held):
    with store.reading() as connection:
        return connection.execute(select(table).where(table.c.id == held.session)).one()


def set_columns(store, held, **values):
    with store.writing() as transaction:
        transaction.connection.execute(update(table).where(table.c.id == held.session).values(**values))


def write(store, held, step=1):
    return ledger.append(store, held, [(RowKey(1, step, 0, RowKind.DECIDING), {})])


def shifted(clock, by):
    return lambda: clock() + by


def test_attempts_are_the_owners_in_a_row_that_died_and_the_one_that_has_it(store, held, clock):
    set_columns(store, held, owner=DEAD)
    second = lease.claim(store, held.session)
    clock.now_ms += LEASE_MS
    third = lease.claim(store, held.session)
    assert (held.attempt, second.attempt, third.attempt) == (1, 2, 3)
    assert columns(store, held).attempts == 3
    lease.release(store, third, SessionState.OPEN)
    assert lease.claim(store, held.session).attempt == 1


def test_a_claim_that_finds_the_session_busy_is_no_attempt(store, held):
    for _ in range(3):
        with pytest.raises(BusyError):
            lease.claim(store, held.session)
    assert columns(store, held).attempts == 1


@pytest.mark.parametrize("attempts", [-7, 0])
def test_attempts_that_nobody_can_have_made_count_as_one(store, held, attempts):
    set_columns(store, held, owner=DEAD, attempts=attempts)
    assert lease.claim(store, held.session).attempt == 2


@pytest.mark.sample(2)
@pytest.mark.parametrize("fence", [0, -5, 1])
def test_a_fence_that_was_set_back_does_not_let_an_older_owner_write_again(store, held, clock, fence):
    owners = [held]
    for step in range(1, 4):
        write(store, owners[-1], step)
        clock.now_ms += LEASE_MS
        owners.append(lease.claim(store, held.session))
    write(store, owners[-1], 4)
    set_columns(store, held, fence=fence, owner="", expires_ms=0)
    newest = lease.claim(store, held.session)
    assert newest.fence > owners[-1].fence
    for owner in owners:
        with pytest.raises(LeaseLostError):
            write(store, owner, 5)
    write(store, newest, 5)


def test_a_fence_that_was_set_on_shuts_the_owner_out_and_lets_the_next_one_in(store, held):
    set_columns(store, held, fence=held.fence + 1000)
    with pytest.raises(LeaseLostError):
        write(store, held)
    set_columns(store, held, owner=DEAD)
    newest = lease.claim(store, held.session)
    write(store, newest)
    assert newest.fence == held.fence + 1001


@pytest.mark.sample(2)
@pytest.mark.parametrize("owner", ["", "nobody", ELSEWHERE])
def test_an_owner_that_was_written_over_can_not_write_any_more_nor_give_the_lease_back(store, held, owner):
    set_columns(store, held, owner=owner)
    with pytest.raises(LeaseLostError):
        write(store, held)
    with pytest.raises(LeaseLostError):
        lease.beat(store, held)
    lease.release(store, held, SessionState.DONE)
    assert (columns(store, held).owner, columns(store, held).state) == (owner, SessionState.OPEN)


@pytest.mark.sample(4)
@pytest.mark.parametrize("owner", ["nobody", ELSEWHERE, "|||||", "a|b|c", "-"])
def test_a_lease_that_would_never_end_ends_one_lease_after_somebody_wanted_it(store, held, clock, owner):
    set_columns(store, held, owner=owner, expires_ms=2**62)
    with pytest.raises(BusyError):
        lease.claim(store, held.session)
    clock.now_ms += LEASE_MS - 1
    with pytest.raises(BusyError):
        lease.claim(store, held.session)
    clock.now_ms += 1
    write(store, lease.claim(store, held.session))


def test_a_row_of_the_table_that_is_gone_is_a_lease_that_is_lost(store, held):
    gone = lease.Lease("ses_gone", held.fence, held.owner)
    with pytest.raises(LeaseLostError):
        write(store, gone)


@pytest.mark.sample(6)
@pytest.mark.parametrize("column", ["fence", "expires_ms", "attempts"])
@pytest.mark.parametrize("said", ["'soon'", "x'00ff'", "1.5"])
def test_what_is_no_number_is_no_lease_and_the_session_can_be_taken(store, held, backend, column, said):
    if backend != "sqlite":
        pytest.skip("only SQLite keeps words in a column of numbers")
    with store.writing() as transaction:
        transaction.connection.execute(text(f"UPDATE session SET {column} = {said}"))  # noqa: S608 - as above
    if column != "attempts":
        with pytest.raises(LeaseLostError):
            write(store, held)
    set_columns(store, held, owner=DEAD)
    taken = lease.claim(store, held.session)
    write(store, taken)
    assert taken.attempt == 2


def test_the_clock_of_the_process_does_not_matter(database, held, monkeypatch):
    plain = Store(database)
    lease.release(plain, held, SessionState.OPEN)
    day_s = 86_400
    mine = lease.claim(plain, held.session)
    for shift_s in (-365 * day_s, 365 * day_s):
        with monkeypatch.context() as patch:
            for name, by in (("time", shift_s), ("monotonic", shift_s), ("time_ns", shift_s * 10**9)):
                patch.setattr(time, name, shifted(getattr(time, name), by))
            lease.beat(plain, mine)
            write(plain, mine, 1 + (shift_s > 0))
            with pytest.raises(BusyError):
                lease.claim(plain, held.session)
    plain.close()


def test_a_database_clock_that_jumps_ahead_ends_the_lease_and_never_lets_two_write(store, held, clock):
    write(store, held)
    clock.now_ms += 3_600_000
    with pytest.raises(LeaseLostError):
        write(store, held, 2)
    newer = lease.claim(store, held.session)
    clock.now_ms -= 3_600_000
    with pytest.raises(LeaseLostError):
        write(store, held, 2)
    with pytest.raises(LeaseLostError):
        lease.beat(store, held)
    write(store, newer, 2)


def test_a_database_clock_that_was_set_back_does_not_free_a_lease_whose_owner_lives(store, held, clock):
    clock.now_ms -= 3_600_000
    with pytest.raises(BusyError):
        lease.claim(store, held.session)
    write(store, held)
    lease.beat(store, held)
    for _ in range(8):
        clock.now_ms += LEASE_MS // 2
        lease.beat(store, held)
        with pytest.raises(BusyError):
            lease.claim(store, held.session)
    write(store, held, 2)


def test_a_database_clock_that_was_set_back_keeps_the_lease_of_a_lost_owner_for_one_lease_more(store, held, clock):
    set_columns(store, held, owner=ELSEWHERE)
    clock.now_ms -= 3_600_000
    with pytest.raises(BusyError):
        lease.claim(store, held.session)
    clock.now_ms += LEASE_MS
    assert lease.claim(store, held.session).attempt == 2
