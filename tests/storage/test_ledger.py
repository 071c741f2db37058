from __future__ import annotations

import pytest
from sqlalchemy import select

from esper_agents.domain.ledger import RowKey, RowKind, SessionCancelled
from esper_agents.domain.session import SessionState
from esper_agents.errors import LeaseLostError, StorageError
from esper_agents.storage import ledger, sessions
from esper_agents.storage.lease import Lease
from esper_agents.storage.tables import session as table


def key(step, kind=RowKind.DECIDING, *, frame=1, call=0):
    return RowKey(frame, step, call, kind)


def rows(store, session, **options):
    with store.reading() as connection:
        return ledger.rows(connection, session, **options)


def test_a_session_begins_with_the_row_of_its_submission(store, held):
    (first,) = rows(store, held.session)
    assert first.key == RowKey(0, 0, 0, RowKind.SUBMITTED)
    assert '"request":"review this"' in first.body
    assert first.at == "2027-01-15T08:00:00.123Z"


def test_rows_come_back_in_order_as_they_were_written(store, held, clock):
    clock.now_ms += 5
    written = ledger.append(store, held, [(key(1), {}), (key(1, RowKind.CANCELLED), SessionCancelled("µ\u2028x"))]).rows
    found = rows(store, held.session)
    assert found[1:] == written
    assert found[2].body == '{"by":"µ\u2028x"}'
    assert found[2].at == "2027-01-15T08:00:00.128Z"
    assert found[0].seq < found[1].seq < found[2].seq


def test_rows_after_a_number_are_those_with_a_greater_one(store, held):
    written = ledger.append(store, held, [(key(1), {}), (key(2), {})]).rows
    assert rows(store, held.session, after=written[0].seq) == written[1:]
    assert rows(store, held.session, after=written[1].seq) == ()


def test_numbers_grow_over_all_sessions(store, create):
    one, other = create(), create()
    first = ledger.append(store, other, [(key(1), {})]).rows[0]
    second = ledger.append(store, one, [(key(1), {})]).rows[0]
    assert second.seq > first.seq
    assert second.key == first.key


def test_no_two_rows_share_a_key(store, held):
    ledger.append(store, held, [(key(1), {})])
    with pytest.raises(StorageError, match="refused"):
        ledger.append(store, held, [(key(1), {"again": True})])
    assert [row.body for row in rows(store, held.session)][1:] == ["{}"]


@pytest.mark.parametrize(
    "other",
    [key(2), key(1, frame=2), key(1, call=1), key(1, RowKind.MOVED)],
    ids=["step", "frame", "call", "kind"],
)
def test_each_part_of_the_key_counts(store, held, other):
    ledger.append(store, held, [(key(1), {}), (other, {})])
    assert len(rows(store, held.session)) == 3


def test_rows_of_one_append_are_written_together_or_not_at_all(store, held):
    with pytest.raises(StorageError):
        ledger.append(store, held, [(key(1), {}), (key(2), {}), (key(1), {})], state=SessionState.DONE)
    assert len(rows(store, held.session)) == 1
    assert sessions.find(store, "toy-0123456789ab", held.session).state is SessionState.OPEN


def test_an_append_without_a_lease_writes_nothing(store, held):
    for wrong in (Lease(held.session, held.fence - 1), Lease(held.session, held.fence + 1), Lease("ses_none", 1)):
        with pytest.raises(LeaseLostError):
            ledger.append(store, wrong, [(key(1), {})])
    assert len(rows(store, held.session)) == 1


def test_the_copied_columns_change_in_the_transaction_that_says_so(store, held, clock):
    clock.now_ms += 1000
    ledger.append(store, held, [(key(1), {})], state=SessionState.WAITING, agent="reviewer", certificate_id="crt_1")
    with store.reading() as connection:
        found = connection.execute(select(table).where(table.c.id == held.session)).one()
    assert (found.state, found.agent, found.certificate_id) == (SessionState.WAITING, "reviewer", "crt_1")
    assert (found.created_at, found.changed_at) == ("2027-01-15T08:00:00.123Z", "2027-01-15T08:00:01.123Z")


def test_a_writer_learns_that_the_session_is_to_be_cancelled(store, held):
    assert not ledger.append(store, held, [(key(1), {})]).is_cancel_requested
    sessions.request_cancel(store, held.session)
    assert ledger.append(store, held, [(key(2), {})]).is_cancel_requested


def test_nothing_begins_in_a_session_that_is_to_be_cancelled_and_what_is_done_is_still_written(store, held):
    begun = ledger.append(store, held, [(key(1), {})], beginning=[(key(2), {})])
    assert ([row.key for row in begun.rows], begun.is_cancel_requested) == ([key(1), key(2)], False)
    sessions.request_cancel(store, held.session)
    refused = ledger.append(store, held, [(key(3), {})], beginning=[(key(4), {})])
    assert ([row.key for row in refused.rows], refused.is_cancel_requested) == ([key(3)], True)
    assert [row.key for row in rows(store, held.session)][1:] == [key(1), key(2), key(3)]


def test_rows_are_counted_by_session(store, create):
    one, other = create(), create()
    ledger.append(store, one, [(key(1), {})])
    with store.reading() as connection:
        assert (ledger.count(connection, one.session), ledger.count(connection, other.session)) == (2, 1)


def test_each_row_names_the_fence_it_was_written_under(store, held, clock):
    from esper_agents.storage import lease, tables

    clock.now_ms += lease.LEASE_MS
    taken = lease.claim(store, held.session)
    ledger.append(store, taken, [(key(1), {})])
    with store.reading() as connection:
        assert connection.scalars(select(tables.ledger.c.fence).order_by(tables.ledger.c.seq)).all() == [1, 2]
