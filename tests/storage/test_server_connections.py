"""Connections to a PostgreSQL server: pool settings, a pooler in front of it, and connections that end."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from judged import FAULTY, judge
from sqlalchemy import create_engine, make_url, text

from esper_agents.api import open_project
from esper_agents.errors import ExitCode, StorageError, UsageError
from esper_agents.storage.maintenance import upgrade, vacuum
from esper_agents.storage.store import Store

pytestmark = pytest.mark.postgresql


def do(url, *statements):
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        found = [connection.execute(text(statement)) for statement in statements]
        rows = [tuple(row) for row in found[-1]] if found[-1].returns_rows else []
    engine.dispose()
    return rows


def in_environment(monkeypatch, url):
    monkeypatch.setenv("ESPER_DATABASE_URL", url.render_as_string(hide_password=False))


def verified(root):
    async def run():
        async with open_project(root) as project:
            return (await project.certificates.verify_all()).exit_code

    return asyncio.run(run())


@pytest.mark.parametrize("size", ["1", "0", "-3", "101", "many", "2.5"])
def test_a_pool_size_that_is_no_number_in_range_is_refused(postgresql_url, monkeypatch, size):
    monkeypatch.setenv("ESPER_DATABASE_POOL_SIZE", size)
    with pytest.raises(UsageError, match="invalid ESPER_DATABASE_POOL_SIZE") as refused:
        Store(postgresql_url)
    assert "2 to 100" in refused.value.remedy


def test_an_unknown_pooler_is_refused(postgresql_url, monkeypatch):
    monkeypatch.setenv("ESPER_DATABASE_POOLER", "session")
    with pytest.raises(UsageError, match="invalid ESPER_DATABASE_POOLER 'session'"):
        Store(postgresql_url)


def test_whole_sessions_run_with_the_smallest_pool(postgresql_url, make_project, monkeypatch):
    in_environment(monkeypatch, postgresql_url)
    monkeypatch.setenv("ESPER_DATABASE_POOL_SIZE", "2")
    root = make_project({"train.py": FAULTY})
    judge(root)
    assert verified(root) is ExitCode.DONE


def test_a_store_opens_no_more_connections_than_its_pool_has_and_says_so_when_none_is_free(postgresql_url, monkeypatch):
    monkeypatch.setenv("ESPER_DATABASE_POOL_SIZE", "3")
    store = Store(postgresql_url)
    store._database._engine.pool._timeout = 0.2
    wanted = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'esper-agents' AND datname = '{}'"
    with store.reading(), store.reading(), store.reading():
        assert do(postgresql_url, wanted.format(postgresql_url.database)) == [(3,)]
        with pytest.raises(StorageError, match="no connection of this process became free") as refused, store.reading():
            pass
        assert "ESPER_DATABASE_POOL_SIZE" in refused.value.remedy
    store.close()


def test_a_connection_that_the_server_ends_is_named_and_the_next_transaction_gets_another(postgresql_url):
    store = Store(postgresql_url)

    def write():
        with store.writing() as transaction:
            wanted = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'esper-agents'"
            do(postgresql_url, f"{wanted} AND datname = '{postgresql_url.database}'")
            transaction.connection.execute(text("SELECT 1"))

    with pytest.raises(StorageError, match="the network or the server ended the connection") as refused:
        write()
    assert "recorded steps are safe" in refused.value.remedy
    with store.writing() as transaction:
        assert transaction.connection.scalar(text("SELECT 1")) == 1
    store.close()


def test_a_read_only_server_is_named(postgresql_url):
    Store(postgresql_url).close()
    do(postgresql_url, f'ALTER DATABASE "{postgresql_url.database}" SET default_transaction_read_only = on')
    store = Store(postgresql_url)
    with pytest.raises(StorageError, match="the server is read-only"), store.writing() as transaction:
        transaction.connection.execute(text("DELETE FROM project"))
    store.close()


def test_a_schema_that_changed_under_a_running_process_is_named_as_another_version(postgresql_url):
    store = Store(postgresql_url)
    do(postgresql_url, "ALTER TABLE esper.session RENAME COLUMN request TO wish")
    with pytest.raises(StorageError, match="another version of esper-agents") as refused, store.reading() as connection:
        connection.execute(text("SELECT request FROM session"))
    assert "esper db status" in refused.value.remedy
    store.close()


def test_a_server_that_accepts_and_never_answers_is_reported_as_a_network_problem():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = make_url(f"postgresql://me@127.0.0.1:{mute.getsockname()[1]}/db?connect_timeout=2")
        with pytest.raises(StorageError, match="the network does not reach the server in time"):
            Store(url)


@pytest.fixture
def pgbouncer(postgresql_url, tmp_path_factory):
    """Return the URL of the database through PgBouncer in transaction mode: `ESPER_TEST_PGBOUNCER`, else on PATH."""
    program = os.environ.get("ESPER_TEST_PGBOUNCER") or shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    if not program:
        pytest.skip("no pgbouncer is installed: transaction pooling was NOT tested")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("pgbouncer")
    server = postgresql_url.query.get("host", postgresql_url.host)
    (folder / "users").write_text(f'"{postgresql_url.username}" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n{postgresql_url.database} = host={server} port={postgresql_url.port or 5432}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n"
        f"auth_file = {folder / 'users'}\npool_mode = transaction\ndefault_pool_size = 3\n"
        f"logfile = {folder / 'log'}\npidfile = {folder / 'pid'}\n"
    )
    command = [program, str(folder / "pgbouncer.ini")]
    if os.geteuid() == 0:
        # PgBouncer does not run as root.
        for path in (folder, *folder.parents[:3]):
            path.chmod(0o777 if path == folder else 0o755)
        command[1:1] = ["-u", Path(server).owner() if str(server).startswith("/") else "nobody"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    url = make_url("postgresql://").set(
        username=postgresql_url.username, host="127.0.0.1", port=port, database=postgresql_url.database
    )
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
    yield url
    process.terminate()
    process.communicate()


def test_a_pooler_that_is_not_named_is_recognised(pgbouncer):
    with pytest.raises(StorageError, match="a pooler such as PgBouncer") as refused:
        Store(pgbouncer)
    assert refused.value.remedy == "set ESPER_DATABASE_POOLER=transaction"


def test_everything_works_through_a_transaction_pooler(pgbouncer, make_project, monkeypatch):
    in_environment(monkeypatch, pgbouncer)
    monkeypatch.setenv("ESPER_DATABASE_POOLER", "transaction")
    assert upgrade(pgbouncer).migrations
    root = make_project({"train.py": FAULTY})
    for _ in range(2):
        judge(root)
    assert verified(root) is ExitCode.DONE
    assert vacuum(pgbouncer).after_bytes


def test_many_transactions_at_once_share_the_few_connections_of_a_pooler(pgbouncer, monkeypatch):
    """Each statement runs often enough that the driver would prepare it on the server."""
    monkeypatch.setenv("ESPER_DATABASE_POOLER", "transaction")
    stores = [Store(pgbouncer) for _ in range(4)]
    wrong = []

    def work(store):
        try:
            for _ in range(30):
                with store.writing() as transaction:
                    transaction.connection.execute(text("SELECT count(*) FROM session")).all()
        except StorageError as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(store,)) for store in stores for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert wrong == []
