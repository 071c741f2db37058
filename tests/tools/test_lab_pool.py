"""The lab under the tools: confined or not at all, nothing seen that is ours, no process left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess

import psutil
import pytest
from torch_toys import needs_torch, write

from esper_agents.errors import EsperError, EvidenceError
from esper_agents.tools.lab_pool import LabPool
from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext
from esper_agents.torchlab.lab import LabSettings

pytestmark = [pytest.mark.anyio, needs_torch]

PEEKING = """import os
import torch


def make_step():
    def step():
        if {is_hidden} and os.path.exists({secret!r}):
            raise RuntimeError("it was seen")
        try:
            open({secret!r}).close()
        except OSError:
            return
        raise RuntimeError("it was read")
    return step


def make_endless_step():
    def step():
        open("began", "w").close()
        while True:
            pass
    return step
"""


BEFORE = set()


@pytest.fixture(autouse=True)
def before():
    """Remember the processes that other tests keep: they are no business of ours."""
    BEFORE.clear()
    BEFORE.update(children())


def children():
    return {child.pid for child in psutil.Process().children(recursive=True)} - BEFORE


async def until(is_so):
    """Wait for something that another process or task does."""
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - what it is does not tell
            await asyncio.sleep(0.02)


@pytest.fixture
async def search(tmp_path, monkeypatch):
    """Search for a NaN in a step of a project in which the program's own folder lies: the quickest way to run it."""
    secret = tmp_path / "home" / "key"
    secret.parent.mkdir()
    secret.write_text("secret")
    # Landlock alone refuses to open a file; that there is one, it does not hide.
    has_bubblewrap = shutil.which("bwrap") is not None
    write(tmp_path, {"peek.py": PEEKING.format(secret=str(secret), is_hidden=has_bubblewrap)})
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "home"))
    context = ToolContext(tmp_path, bench=LabPool(tmp_path))

    async def run(target, **more):
        return await load_tools().get("torch-nan").run(context, {"target": f"peek.py:{target}", **more})

    run.bench = context.bench
    yield run
    # A lab that a failed test leaves open holds the machine, and every later measurement waits for it.
    await context.bench.close()


async def test_measured_code_sees_nothing_that_is_ours_and_leaves_no_process_when_it_is_cancelled(search):
    assert (await search("make_step", steps=1)).output["status"] == "clean"
    opened = search.bench._lab
    running = asyncio.create_task(search("make_endless_step", steps=1))
    known = opened._count
    await until(lambda: opened._count > known)
    # It is the endless step that is to be interrupted, and not the fork before it.
    await asyncio.sleep(0.5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not children()
    assert search.bench._lab is None
    # The next one works.
    assert (await search("make_step", steps=1)).output["status"] == "clean"
    await search.bench.close()
    assert not children()


async def test_a_lab_that_died_is_replaced(search):
    assert (await search("make_step", steps=1)).output["status"] == "clean"
    for child in children():
        os.kill(child, signal.SIGKILL)
    with pytest.raises(EvidenceError, match="has ended"):
        await search("make_step", steps=1)
    assert (await search("make_step", steps=1)).output["status"] == "clean"
    await search.bench.close()
    assert not children()


async def test_where_no_sandbox_holds_nothing_runs(tmp_path, monkeypatch):
    from esper_agents.torchlab import bubblewrap
    from esper_agents.torchlab.worker.process import landlock

    monkeypatch.setattr(bubblewrap, "find", lambda: None)
    monkeypatch.setattr(landlock, "version", lambda: 0)
    ran = tmp_path / "project" / "ran"
    project = write(
        tmp_path / "project", {"m.py": f"open({str(ran)!r}, 'w')\n\n\ndef make_step():\n    return print\n"}
    )
    tool = load_tools().get("torch-nan")
    with pytest.raises(EvidenceError, match="no sandbox works here"):
        await tool.run(ToolContext(project), {"target": "m.py:make_step"})
    # Saying so in the settings does not help: only a person may, on the command line.
    bench = LabPool(project, LabSettings(is_unconfined=True))
    with pytest.raises(EvidenceError, match="no sandbox works here"):
        await tool.run(ToolContext(project, bench=bench), {"target": "m.py:make_step"})
    await bench.close()
    assert not ran.exists()


async def test_an_interpreter_without_torch_is_no_measurement(tmp_path):
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import torch"], check=False).returncode == 0:  # noqa: ASYNC221 - nobody waits
        pytest.skip("the system's Python has a torch: nothing was tested")
    project = write(tmp_path / "project", {"m.py": "def make_step():\n    return print\n"})
    bench = LabPool(project, LabSettings(python=python))
    with pytest.raises(EsperError, match="has no torch"):
        await load_tools().get("torch-nan").run(ToolContext(project, bench=bench), {"target": "m.py:make_step"})
    await bench.close()


async def test_an_idle_lab_gives_the_machine_back(tmp_path):
    project = write(tmp_path / "project", {"m.py": "def make_step():\n    return lambda: None\n"})
    bench = LabPool(project, idle_s=0.0)
    await load_tools().get("torch-nan").run(ToolContext(project, bench=bench), {"target": "m.py:make_step", "steps": 1})
    await until(lambda: bench._lab is None and not children())
