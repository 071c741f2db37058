"""The metrics of a worker, as a scraper reads them."""

from __future__ import annotations

import asyncio
import signal
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

import pytest
from judged import FAULTY

from esper_agents.api import open_project
from esper_agents.api.worker import open_worker
from esper_agents.errors import StorageError, UsageError

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


def scraped(port, path="/metrics", method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def certificates(found):
    return sum(value for name, value in found.items() if name.startswith("esper_certificates{"))


async def read(port, **options):
    return await asyncio.to_thread(scraped, port, **options)


async def enqueued(root, count):
    async with open_project(root) as project:
        for _ in range(count):
            await project.tasks.enqueue(project.tasks.create("review this training code", [root / "train.py"]))


async def test_a_scraper_reads_the_queue_before_and_after_the_sessions_ran(make_project):
    root = make_project({"train.py": FAULTY})
    await enqueued(root, 2)
    async with open_worker(root, concurrency=2, metrics_port=0) as worker:
        before = await read(worker.metrics_port)
        assert before["esper_queue_sessions"] == 2
        assert before["esper_queue_oldest_seconds"] > 0
        assert before["esper_database_up"] == 1
        await worker.run(once=True)
        after = await read(worker.metrics_port)
    assert (after["esper_queue_sessions"], after["esper_queue_oldest_seconds"]) == (0, 0)
    assert after["esper_sessions_running"] == after["esper_sessions_abandoned"] == 0
    assert after['esper_worker_events_total{event="ended"}'] == 2
    assert after['esper_worker_events_total{event="lost"}'] == 0
    assert certificates(after) == 2


async def test_a_worker_serves_no_metrics_unless_it_is_asked_to(project):
    async with open_worker(project, concurrency=1) as worker:
        assert worker.metrics_port is None


async def test_only_the_page_of_metrics_is_served_and_only_to_readers(project):
    async with open_worker(project, concurrency=1, metrics_port=0) as worker:
        for options, code in (({"path": "/"}, 404), ({"method": "POST"}, 405), ({"path": "/metrics/../x"}, 404)):
            with pytest.raises(HTTPError) as refused:
                await read(worker.metrics_port, **options)
            assert refused.value.code == code
            refused.value.close()


async def test_a_port_in_use_is_refused(project):
    async with open_worker(project, concurrency=1, metrics_port=0) as worker:
        with pytest.raises(UsageError, match="cannot be used"):
            async with open_worker(project, concurrency=1, metrics_port=worker.metrics_port):
                pass


async def test_a_scraper_learns_that_the_database_is_away(project, monkeypatch):
    def away(_store, _key):
        raise StorageError("the database cannot be reached", remedy="start it")

    monkeypatch.setattr("esper_agents.api.worker.queue_metrics", away)
    async with open_worker(project, concurrency=1, metrics_port=0) as worker:
        found = await read(worker.metrics_port)
    assert found["esper_database_up"] == 0
    assert "esper_queue_sessions" not in found


async def test_a_client_that_sends_nothing_or_too_much_does_not_stop_the_others(project):
    async with open_worker(project, concurrency=1, metrics_port=0) as worker:
        mute = await asyncio.open_connection("127.0.0.1", worker.metrics_port)
        long = await asyncio.open_connection("127.0.0.1", worker.metrics_port)
        long[1].write(b"GET /" + b"x" * 100_000)
        assert (await read(worker.metrics_port))["esper_database_up"] == 1
        for _, writer in (mute, long):
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@pytest.mark.slow
async def test_a_drained_worker_gives_its_leases_back_and_exits_with_0(make_project):
    """SIGTERM lets the running steps end; what is left of the queue is there for another worker."""
    root = make_project({"train.py": FAULTY})
    await enqueued(root, 6)
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("esper"),
        *("worker", "--project", ".", "--jobs", "2", "--metrics", "0"),
        cwd=root,
        stdout=asyncio.subprocess.PIPE,
    )
    assert (await process.stdout.readline()).startswith(b"metrics")
    assert (await process.stdout.readline()).startswith(b"taken")
    process.send_signal(signal.SIGTERM)
    await process.communicate()
    assert process.returncode == 0
    async with open_worker(root, concurrency=2, metrics_port=0) as worker:
        left = await read(worker.metrics_port)
        assert left["esper_sessions_running"] == left["esper_sessions_abandoned"] == 0
        assert left["esper_queue_sessions"] + certificates(left) == 6
        await worker.run(once=True)
        done = await read(worker.metrics_port)
    assert done["esper_queue_sessions"] == 0
    assert certificates(done) == 6
