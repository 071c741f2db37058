from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from esper_agents.domain.evidence import Risk
from esper_agents.errors import EsperError, EvidenceError, UsageError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.tools import sandbox_programs
from esper_agents.tools.run_python import run_python
from esper_agents.tools.shell import shell as shell_tool
from esper_agents.torchlab import bubblewrap
from esper_agents.torchlab.supervisor import descendants
from esper_agents.torchlab.worker.process import landlock

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["bubblewrap", "landlock"])
def held(request, monkeypatch):
    """Hold what runs by each kind of sandbox in turn."""
    if request.param == "landlock":
        if not landlock.version():
            pytest.skip("this kernel has no Landlock: it was NOT tested")
        monkeypatch.setattr(bubblewrap, "find", lambda: None)
    elif bubblewrap.find() is None:
        pytest.skip("bubblewrap is not installed: it was NOT tested")
    return request.param


async def python(context, code, **arguments):
    return (await run_python.run(context, {"code": code, **arguments})).output


async def shell(context, command, **arguments):
    return (await shell_tool.run(context, {"command": command, **arguments})).output


async def test_code_runs_on_a_copy_of_the_project(context, held):
    before = (context.root / "train.py").read_bytes()
    (context.root / "sub").mkdir()
    (context.root / "sub" / "new.py").write_text("answer = 42\n")
    code = (
        "import os, sub.new\nprint(sub.new.answer, sorted(os.listdir('.')), os.getcwd())\n"
        "open('train.py', 'w').write('gone')\nopen('made', 'w').write('x')\nprint(os.path.exists('made'))\n"
    )
    found = await python(context, code)
    assert found["printed"] == f"42 ['sub', 'train.py'] {context.root}\nTrue\n"
    assert (found["exit_code"], found["files"], found["sandbox"]["sandbox"]) == (0, 2, held)
    assert (context.root / "train.py").read_bytes() == before
    assert not (context.root / "made").exists()


async def test_neither_the_project_itself_nor_secrets_nor_the_program_s_own_things_can_be_seen(context, held, home):
    (context.root / ".env").write_text("K=seekret")
    (home / "signing.key").write_text("seekret")
    (context.root.parent / "other.txt").write_text("seekret")
    places = [
        context.root / "train.py",
        context.root / ".env",
        home / "signing.key",
        Path("/etc/shadow"),
        context.root.parent / "other.txt",
    ]
    code = (
        f"places = {[str(place) for place in places]!r}\n"
        "for each in places:\n    try:\n        open(each).read()\n        print('open', each)\n"
        "    except OSError:\n        print('closed')\n"
        "import os\nprint(os.path.exists('.env'), os.path.exists('.git'))\n"
    )
    assert (await python(context, code))["printed"] == "closed\n" * 5 + "False False\n"


async def test_there_is_no_network(context, held):
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    code = (
        "import socket\nfor family in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n    try:\n"
        f"        s = socket.socket(socket.AF_INET, family); s.settimeout(2); s.connect(('127.0.0.1', {port}))\n"
        "        s.send(b'x'); print('sent' if family == socket.SOCK_STREAM else 'nobody heard')\n"
        "    except OSError:\n        print('closed')\n"
    )
    said = (await python(context, code))["printed"]
    server.close()
    assert "sent" not in said


async def test_secrets_of_the_environment_stay_outside(context, held, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ESPER_DATABASE_URL", "HF_TOKEN", "MY_PASSWORD"):
        monkeypatch.setenv(name, "seekret-of-the-environment")
    found = await shell(context, "env; cat /proc/*/environ | tr '\\0' '\\n'")
    assert "PATH=" in found["printed"]
    assert "seekret" not in found["printed"]


@pytest.mark.sample(1)
async def test_what_takes_too_long_is_stopped_with_what_it_said(context, held):
    found = await python(context, "import time\nprint('here', flush=True)\ntime.sleep(600)", timeout_s=2)
    assert (found["exit_code"], found["ended"], found["printed"]) == (None, "stopped after 2 s", "here\n")


async def test_what_is_left_running_in_the_background_ends(context, held):
    async with asyncio.timeout(60):
        found = await shell(context, "sleep 987654 & echo done")
    assert found["printed"] == "done\n"
    # Sent is not yet delivered.
    async with asyncio.timeout(20):
        while sleeping("987654"):  # noqa: ASYNC110 - another process does not tell
            await asyncio.sleep(0.02)


def sleeping(word):
    import psutil

    return [each for each in psutil.process_iter(["cmdline"]) if word in (each.info["cmdline"] or ())]


async def test_nothing_is_left_of_a_call_that_is_cancelled(context, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    task = asyncio.create_task(shell(context, "sleep 987653"))
    async with asyncio.timeout(60):
        while not sleeping("987653"):  # noqa: ASYNC110 - another process does not tell
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not list(tmp_path.glob("esper-*"))
    async with asyncio.timeout(20):
        while sleeping("987653"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_much_output_is_cut_kept_and_at_last_dropped(context, monkeypatch):
    monkeypatch.setattr(sandbox_programs, "_MOST_PRINTED", 50_000)
    result = await shell_tool.run(context, {"command": "seq 1 20000"})
    (kept,) = result.artifacts[:1]
    whole = Artifacts(context.home / "artifacts").path(kept.sha256).read_text()
    assert len(whole) == 50_000
    assert result.output["dropped_bytes"] == len("".join(f"{n}\n" for n in range(1, 20_001))) - 50_000
    assert kept.sha256 in result.output["printed"]
    assert len(result.output["printed"]) < 11_000


@pytest.mark.parametrize(
    ("command", "ended"),
    [("exit 7", "exited with 7"), ("exit 0", "exited with 0"), ("nosuchprogram", "exited with 127")],
)
async def test_how_a_command_ended_is_told(context, command, ended):
    assert (await shell(context, command))["ended"] == ended


async def test_an_error_in_the_code_is_told_and_no_failure_of_the_tool(context):
    found = await python(context, "raise KeyError('a')")
    assert found["exit_code"] == 1
    assert "KeyError: 'a'" in found["printed"]


async def test_memory_has_a_bound(context, held, monkeypatch):
    monkeypatch.setattr(sandbox_programs, "_MEMORY_BYTES", 512 << 20)
    assert "MemoryError" in (await python(context, "x = bytearray(4 << 30)"))["printed"]


async def test_what_fills_the_disk_is_stopped(context, held, monkeypatch):
    monkeypatch.setattr(sandbox_programs, "_TOTAL", replace(sandbox_programs._TOTAL, disk_bytes=60 << 20))
    code = (
        "import time\nfor number in range(20):\n    with open(f'f{number}', 'wb') as file:\n"
        "        file.write(b'x' * (20 << 20))\ntime.sleep(600)"
    )
    found = await python(context, code)
    assert (found["exit_code"], found["ended"]) == (None, "stopped after using more than 60 MiB of disk")


SLEEPS = "import os, time\nfor _ in range(150):\n    if os.fork() == 0:\n        time.sleep(600)\ntime.sleep(600)"
HOLDS = (
    "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        x = os.urandom(1 << 20) * 60\n"
    "        time.sleep(600)\ntime.sleep(600)"
)


@pytest.mark.parametrize(("code", "said"), [(SLEEPS, "100 processes and threads"), (HOLDS, "200 MiB of memory")])
async def test_all_processes_together_are_bounded(context, held, monkeypatch, code, said):
    monkeypatch.setattr(sandbox_programs, "_TOTAL", replace(sandbox_programs._TOTAL, tasks=100, memory_bytes=200 << 20))
    at_rest = set(descendants(os.getpid()))
    assert (await python(context, code))["ended"] == f"stopped after using more than {said}"
    assert set(descendants(os.getpid())) <= at_rest


async def test_a_process_that_got_away_ends_with_the_program(context, held):
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    if os.fork() == 0:\n"
        "        null = os.open('/dev/null', os.O_RDWR)\n"
        "        for each in (0, 1, 2):\n            os.dup2(null, each)\n"
        "        os.execvp('sleep', ['sleep', '86399'])\n"
        "    os._exit(0)\n"
        "time.sleep(1)\nprint('done')"
    )
    found = await python(context, code)
    assert (found["exit_code"], found["printed"]) == (0, "done\n")
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):
                assert b"86399" not in (place / "cmdline").read_bytes()


async def test_what_git_ignores_is_there_when_it_is_named(context):
    (context.root / ".gitignore").write_text("data/\n")
    (context.root / "data").mkdir()
    (context.root / "data" / "t.csv").write_text("1,2")
    (context.root / "data" / ".env").write_text("K=seekret")
    code = "import os\nprint(os.listdir('data') if os.path.isdir('data') else None)"
    assert (await python(context, code))["printed"] == "None\n"
    with pytest.raises(EvidenceError, match="git ignores it"):
        await python(context, code, data=["data"])
    (context.root / "data" / "kubeconfig-copy").write_text("kind: Config\nusers:\n- user:\n    token: abc\n")
    named = replace(context, named=("train.py", "data"))
    assert (await python(named, code, data=["data"]))["printed"] == "['t.csv']\n"


@pytest.mark.parametrize("path", ["..", "/etc", ".git", ".env", "nosuch"])
async def test_what_lies_outside_or_is_secret_cannot_be_named(context, path):
    (context.root / ".env").write_text("K=seekret")
    with pytest.raises(EsperError):
        await python(context, "print(1)", data=[path])


@pytest.mark.parametrize("seconds", [0, -1, 601])
async def test_a_time_that_cannot_be_given_is_refused(context, seconds):
    with pytest.raises(UsageError, match="timeout_s"):
        await python(context, "print(1)", timeout_s=seconds)


async def test_where_no_sandbox_holds_nothing_runs(context, monkeypatch):
    monkeypatch.setattr(bubblewrap, "find", lambda: None)
    monkeypatch.setattr(landlock, "version", lambda: 0)
    for run in (python, shell):
        with pytest.raises(EvidenceError, match="no sandbox works here"):
            await run(context, "print(1)")


async def test_where_the_kernel_refuses_nothing_runs(context, held, monkeypatch):
    asked = sandbox_programs._message

    def too_little(place, argv):
        return {**asked(place, argv), "folder": "/nosuch"}

    monkeypatch.setattr(sandbox_programs, "_message", too_little)
    with pytest.raises(EvidenceError, match="it was not run: "):
        await python(context, "print('ran')")


async def test_a_project_that_is_too_large_is_not_copied(context, monkeypatch):
    monkeypatch.setattr(sandbox_programs, "_MOST_BYTES", 10)
    with pytest.raises(EvidenceError, match="too much to copy"):
        await python(context, "print(1)")


async def test_a_package_of_the_project_that_is_installed_from_it_is_that_of_the_copy(context, monkeypatch):
    root = context.root
    (root / "src" / "mine").mkdir(parents=True)
    (root / "src" / "mine" / "__init__.py").write_text("where = __file__\n")
    known = sandbox_programs.described_interpreter(sandbox_programs.sys.executable, context.root)
    monkeypatch.setattr(
        sandbox_programs, "described_interpreter", lambda *_: replace(known, places=(*known.places, root / "src"))
    )
    found = await python(context, "import mine\nprint(mine.where)")
    assert found["printed"] == f"{root}/src/mine/__init__.py\n"


async def test_secrets_beside_another_package_that_is_installed_from_its_folder_stay_out_of_sight(
    context, held, monkeypatch
):
    other = context.root.parent / "other"
    (other / ".git").mkdir(parents=True)
    for name in (".git/config", ".env", "other.py"):
        (other / name).write_text("x = 'seekret'\n")
    known = sandbox_programs.described_interpreter(sandbox_programs.sys.executable, context.root)
    monkeypatch.setattr(
        sandbox_programs, "described_interpreter", lambda *_: replace(known, places=(*known.places, other))
    )
    said = (await shell(context, f"cat {other}/.env {other}/.git/config; cat {other}/other.py"))["printed"]
    assert said.count("seekret") == 1


def test_code_in_the_sandbox_runs_unasked_and_a_shell_never_does():
    assert (run_python.risk, run_python.is_repeatable) == (Risk.LOW, True)
    assert (shell_tool.risk, shell_tool.is_repeatable) == (Risk.HIGH, False)


async def test_two_runs_of_the_same_code_print_the_same(context):
    code = "import os, tempfile\nprint(os.getcwd(), tempfile.mkdtemp()[:1], {'a', 'b', 'c'}, os.environ['HOME'])"
    one, other = [await python(context, code) for _ in range(2)]
    assert one["printed"] == other["printed"]
