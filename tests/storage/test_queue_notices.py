"""Notices of queued sessions: who waits learns at once, and a lost connection is opened again."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import create_engine, text

from esper_agents.domain.session import SessionState
from esper_agents.storage import lease, queue_notices, sessions
from esper_agents.storage.queue_notices import QueueNotices, announce
from esper_agents.storage.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.postgresql]
BACKENDS = "SELECT {} FROM pg_stat_activity WHERE application_name = 'esper-agents notices' AND datname = '{}'"


def ask(url, statement):
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        found = connection.execute(text(statement)).all()
    engine.dispose()
    return found


@pytest.fixture
def store(postgresql_url):
    opened = Store(postgresql_url)
    yield opened
    opened.close()


@pytest.fixture
async def notices(postgresql_url, store):
    made = QueueNotices(postgresql_url)
    made.start()
    # The first one says that it listens: whatever was queued before is looked for.
    await asyncio.wait_for(made.wait(), 20)
    yield made
    await made.close()


async def came(notices):
    try:
        await asyncio.wait_for(notices.wait(), 1)
    except TimeoutError:
        return False
    return True


def announced(store):
    with store.writing() as transaction:
        announce(transaction)


async def test_a_notice_comes_when_its_transaction_commits_and_not_before(notices, store):
    with store.writing() as transaction:
        announce(transaction)
        assert not await came(notices)
    assert await came(notices)
    assert not await came(notices)


async def test_nothing_comes_from_a_transaction_that_is_rolled_back(notices, store):

    def fail():
        with store.writing() as transaction:
            announce(transaction)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not await came(notices)


async def test_a_queued_session_and_one_that_is_given_back_are_announced_and_a_finished_one_is_not(notices, store):
    from storage_samples import PROJECT, submission

    sessions.enqueue(store, PROJECT, submission())
    assert await came(notices)
    held = sessions.create(store, PROJECT, submission())
    assert not await came(notices)
    lease.release(store, held, SessionState.OPEN)
    assert await came(notices)
    lease.release(store, lease.claim(store, held.session), SessionState.DONE)
    assert not await came(notices)


async def test_a_connection_that_ends_is_opened_again_and_the_worker_looks_at_once(
    notices, store, postgresql_url, monkeypatch
):
    monkeypatch.setattr(queue_notices, "_RECONNECT_S", 0.05)
    ask(postgresql_url, BACKENDS.format("pg_terminate_backend(pid)", postgresql_url.database))
    await asyncio.wait_for(notices.wait(), 20)
    assert notices.is_listening
    announced(store)
    assert await came(notices)


async def test_it_uses_one_connection_and_closes_it(postgresql_url, store):
    notices = QueueNotices(postgresql_url)
    notices.start()
    await asyncio.wait_for(notices.wait(), 20)
    assert ask(postgresql_url, BACKENDS.format("count(*)", postgresql_url.database)) == [(1,)]
    await notices.close()
    assert ask(postgresql_url, BACKENDS.format("count(*)", postgresql_url.database)) == [(0,)]


async def test_through_a_transaction_pooler_it_does_not_listen(postgresql_url, monkeypatch):
    monkeypatch.setenv("ESPER_DATABASE_POOLER", "transaction")
    notices = QueueNotices(postgresql_url)
    notices.start()
    await asyncio.sleep(0.3)
    assert not notices.is_listening
    await notices.close()
