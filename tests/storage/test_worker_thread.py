from __future__ import annotations

import asyncio
import threading

import pytest

from esper_agents.storage.worker_thread import WorkerThread

pytestmark = pytest.mark.anyio


@pytest.fixture
def worker():
    made = WorkerThread("worker")
    yield made
    made.close()


async def test_work_is_done_in_the_order_in_which_it_was_given_on_one_thread(worker):
    seen = []

    def note(number):
        seen.append((number, threading.current_thread().name))
        return number

    assert await asyncio.gather(*(worker.run(lambda each=each: note(each)) for each in range(20))) == [*range(20)]
    assert seen == [(each, "worker") for each in range(20)]


async def test_what_work_raises_reaches_whoever_waits_and_the_next_is_done_all_the_same(worker):
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0)
    assert await worker.run(lambda: 2) == 2


async def test_work_that_nobody_waits_for_any_more_is_not_begun_and_what_runs_goes_on(worker):
    begun, gate, done = threading.Event(), threading.Event(), []
    running = asyncio.create_task(worker.run(lambda: (begun.set(), gate.wait(60), done.append("first"))))
    waiting = asyncio.create_task(worker.run(lambda: done.append("second")))
    await asyncio.sleep(0)
    assert begun.wait(60)
    for each in (running, waiting):
        each.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    gate.set()
    assert await worker.run(lambda: "third") == "third"
    assert done == ["first"]


async def test_closing_waits_for_what_was_given_and_nothing_is_taken_after_it(worker):
    done = []
    given = asyncio.create_task(worker.run(lambda: done.append("given")))
    await asyncio.sleep(0)
    worker.close()
    assert done == ["given"]
    await given
    with pytest.raises(RuntimeError, match="the thread worker was closed"):
        await worker.run(lambda: None)


def test_a_loop_that_is_gone_does_not_stop_the_thread(worker):
    gate, loop = threading.Event(), asyncio.new_event_loop()

    async def leave():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.run(lambda: gate.wait(60)), 0.01)

    loop.run_until_complete(leave())
    loop.close()
    gate.set()
    assert asyncio.run(worker.run(lambda: "next")) == "next"
