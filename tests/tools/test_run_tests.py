"""The project's own tests, run in the real sandbox on small real projects: what passes, fails and executes lines."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest
from places import git, write

from esper_agents.domain.finding import Severity
from esper_agents.errors import EvidenceError
from esper_agents.tools import run_tests as run_tests_module
from esper_agents.tools.run_tests import run_tests

pytestmark = pytest.mark.anyio

LOOP = """LIMIT = 3


def count(n):
    total = 0
    for each in range(n):
        total += each
    return total


def unused():
    return 1
"""
COUNTS = "from loop import count\n\n\ndef test_count():\n    assert count(3) == 3\n"


@pytest.fixture(autouse=True)
def _python(monkeypatch):
    """Make `python` the interpreter of the tests, as in an environment that is active."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")


@pytest.fixture
def tested(project):
    write(project, {"test_good.py": "def test_good():\n    assert 1 + 1 == 2\n", "loop.py": LOOP})
    return project


async def test_tests_that_pass_are_said_to_pass(call, tested):
    found = await call("run-tests", paths=["test_good.py"])
    assert (found.output["outcome"], found.output["exit_code"]) == ("passed", 0)
    assert "1 passed" in found.summary
    assert found.claims == ()


async def test_a_test_that_fails_is_a_finding_at_its_line(call, tested):
    (tested / "test_bad.py").write_text("import pytest\n\n\ndef test_bad():\n    assert 1 + 1 == 3\n")
    found = await call("run-tests", paths=["test_good.py", "test_bad.py"])
    (claim,) = found.claims
    assert (found.output["outcome"], found.output["exit_code"]) == ("failed", 1)
    assert (str(claim.location), claim.excerpt) == ("test_bad.py:4", "def test_bad():")
    assert claim.severity is Severity.CRITICAL
    assert "test_bad" in claim.message
    assert [each.path for each in found.examined] == ["test_bad.py", "test_good.py"]


async def test_the_lines_that_passing_tests_execute_are_counted(call, tested):
    (tested / "test_loop.py").write_text(COUNTS)
    found = await call("run-tests", paths=["test_good.py", "test_loop.py"], subject=["loop.py"])
    assert found.output["coverage"] == [{"path": "loop.py", "lines": 5, "executed": 4}]
    assert found.output["executing"] == {"count": 1, "tests": ["test_loop.py::test_count"]}
    assert found.summary == "tests: 2 passed; 1 test executed 4 of 5 lines of loop.py"
    assert "loop.py" in [each.path for each in found.examined]


WITHOUT_EFFECT = [
    "import loop\n\n\ndef test_import():\n    assert loop.LIMIT == 3\n",
    "def test_import():\n    import loop\n\n    assert loop.LIMIT == 3\n",
    "import pytest\nfrom loop import count\n\n\ndef test_skip():\n    count(3)\n    pytest.skip('no')\n",
    "import pytest\nfrom loop import count\n\n\n@pytest.mark.xfail\ndef test_x():\n    assert count(3) == 4\n",
    "from loop import count\n\n\ndef test_bad():\n    assert count(3) == 4\n",
    "from loop import count\n\nAT_IMPORT = count(3)\n\n\ndef test_nothing():\n    assert True\n",
]


@pytest.mark.parametrize(
    "tests",
    [WITHOUT_EFFECT, *(pytest.param([each], marks=pytest.mark.slow) for each in WITHOUT_EFFECT)],
    ids=["all", *map(str, range(len(WITHOUT_EFFECT)))],
)
async def test_what_only_an_import_or_a_test_that_did_not_pass_executes_does_not_count(call, tested, tests):
    write(tested, {f"test_loop_{number}.py": text for number, text in enumerate(tests)})
    found = await call("run-tests", paths=["."], subject=["loop.py"])
    assert [each["executed"] for each in found.output["coverage"]] == [0]
    assert found.output["executing"]["count"] == 0


@pytest.mark.slow
async def test_a_script_counts_where_a_test_imports_it(call, tested):
    write(tested, {"script.py": "import loop\n\nX = loop.count(3)\nif __name__ == '__main__':\n    print(X)\n"})
    write(tested, {"test_script.py": "import script\n\n\ndef test_script():\n    assert script.X == 3\n"})
    found = await call("run-tests", paths=["test_script.py"], subject=["script.py"])
    assert found.output["coverage"] == [{"path": "script.py", "lines": 2, "executed": 1}]


@pytest.mark.slow
async def test_lines_that_a_thread_executes_count_and_tests_and_constants_need_none(call, tested):
    test = "from threading import Thread\nfrom loop import count\n\n\ndef test_count():\n"
    test += "    thread = Thread(target=count, args=(3,))\n    thread.start()\n    thread.join()\n"
    write(tested, {"test_loop.py": test, "names.py": "A = 1\n"})
    found = await call("run-tests", paths=["."], subject=["."])
    lines = {each["path"]: (each["lines"], each["executed"]) for each in found.output["coverage"]}
    assert lines["loop.py"] == (5, 4)
    assert lines["names.py"] == lines["test_loop.py"] == lines["test_good.py"] == (0, 0)


@pytest.mark.slow
async def test_a_file_that_does_not_even_start_is_a_finding(call, tested):
    (tested / "test_broken.py").write_text("import loop\n\nloop.gone()\n")
    found = await call("run-tests", paths=["."], subject=["loop.py"])
    (claim,) = found.claims
    assert found.output["outcome"] == "failed"
    assert found.output["counts"]["passed"] == 1
    assert str(claim.location) == "test_broken.py:1"
    assert "gone" in claim.message


@pytest.mark.slow
async def test_a_file_that_does_not_start_and_is_about_something_else_is_a_warning(call, tested):
    write(tested, {"test_broken.py": "1 / 0\n", "test_loop.py": COUNTS})
    found = await call("run-tests", paths=["."], subject=["loop.py"])
    assert found.output["outcome"] == "passed"
    assert [claim.severity for claim in found.claims] == [Severity.WARNING]
    assert "does not import the files under test" in found.claims[0].message


@pytest.mark.slow
async def test_a_module_that_is_not_installed_is_no_fault_of_the_code(call, tested):
    (tested / "test_broken.py").write_text("import nosuchmodule\n")
    with pytest.raises(EvidenceError, match="'nosuchmodule' is not installed for") as refused:
        await call("run-tests", paths=["test_broken.py"])
    assert refused.value.remedy.startswith("install nosuchmodule there")


async def test_no_tests_are_no_measurement(call, tested):
    (tested / "empty.py").write_text("x = 1\n")
    with pytest.raises(EvidenceError, match=r"pytest found no tests in empty\.py") as refused:
        await call("run-tests", paths=["empty.py"])
    assert refused.value.remedy == run_tests.rerun({"paths": ["empty.py"]})


@pytest.mark.slow
async def test_tests_that_are_all_skipped_decide_nothing(call, tested):
    (tested / "test_skipped.py").write_text("import pytest\n\n\n@pytest.mark.skip\ndef test_it():\n    assert 0\n")
    found = await call("run-tests", paths=["test_skipped.py"])
    assert found.output["outcome"] == "not decided"


async def test_tests_run_on_a_copy_and_cannot_write_the_project(call, tested):
    (tested / "test_writes.py").write_text(
        "import pathlib\n\n\ndef test_writes():\n    pathlib.Path('made').write_text('x')\n"
        f"    try:\n        pathlib.Path({str(tested)!r}, 'made').write_text('x')\n    except OSError:\n        pass\n"
    )
    before = sorted(tested.iterdir())
    found = await call("run-tests", paths=["test_writes.py"])
    assert found.output["outcome"] == "passed"
    assert found.output["sandbox"]["sandbox"] in {"bubblewrap", "landlock"}
    assert sorted(tested.iterdir()) == before


@pytest.mark.slow
async def test_tests_that_take_too_long_are_stopped(call, tested):
    (tested / "test_slow.py").write_text("import time\n\n\ndef test_slow():\n    time.sleep(1000)\n")
    with pytest.raises(EvidenceError, match="the tests ran over 5 s"):
        await call("run-tests", paths=["test_slow.py"], timeout_s=5)


@pytest.mark.slow
async def test_outside_the_sandbox_what_the_tests_started_ends_with_them(call, tested):
    (tested / "test_slow.py").write_text(
        "import os, subprocess, time\n\n\ndef test_slow():\n"
        "    child = subprocess.Popen(['sleep', '1000'])\n"
        "    open('child.pid', 'w').write(str(child.pid))\n    time.sleep(1000)\n"
    )
    with pytest.raises(EvidenceError, match="the tests ran over 20 s"):
        await call("run-tests", paths=["test_slow.py"], timeout_s=20, unsandboxed=True)
    child = int((tested / "child.pid").read_text())
    # Sent is not yet delivered: on a busy machine a killed process takes a moment to be gone.
    async with asyncio.timeout(20):
        while is_running(child):  # noqa: ASYNC110 - another process does not tell
            await asyncio.sleep(0.02)


def is_running(number):
    import psutil

    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.sample(1)
@pytest.mark.parametrize("unsandboxed", [False, True])
async def test_secrets_do_not_reach_the_code_that_is_tested(call, tested, monkeypatch, unsandboxed):
    for name in ("ANTHROPIC_API_KEY", "ESPER_DATABASE_URL", "AWS_PROFILE", "HF_TOKEN", "MY_PASSWORD", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "seekret")
    (tested / "test_environment.py").write_text(
        "import os\n\n\ndef test_environment():\n    assert 'seekret' not in repr(dict(os.environ))\n"
        "    assert not any(each.startswith('ESPER') for each in os.environ)\n"
    )
    found = await call("run-tests", paths=["test_environment.py"], unsandboxed=unsandboxed)
    assert found.output["outcome"] == "passed", found.output["output"]


@pytest.mark.slow
async def test_outside_the_sandbox_lines_are_counted_as_well_and_the_record_says_where_it_ran(call, tested):
    (tested / "test_loop.py").write_text(COUNTS)
    found = await call("run-tests", paths=["test_loop.py"], subject=["loop.py"], unsandboxed=True)
    assert found.output["coverage"] == [{"path": "loop.py", "lines": 5, "executed": 4}]
    assert found.output["sandbox"]["sandbox"] == "none"
    assert found.output["exceptions"] == ["run-tests:unsandboxed"]


async def test_without_a_sandbox_nothing_runs(call, tested, monkeypatch):
    def none_holds(*_, **__):
        raise EvidenceError("no sandbox works here (bubblewrap: it is not installed)", remedy="install it")

    monkeypatch.setattr(run_tests_module, "sandbox_copy", none_holds)
    with pytest.raises(EvidenceError, match="no sandbox works here") as refused:
        await call("run-tests", paths=["test_good.py"])
    assert "--allow run-tests:unsandboxed" in refused.value.remedy


@pytest.mark.parametrize("path", ["..", "/etc", "../test_x.py", "-pno:terminal"])
async def test_paths_outside_the_project_and_options_are_refused(call, tested, path):
    with pytest.raises(EvidenceError):
        await call("run-tests", paths=[path])


READS = "from pathlib import Path\n\n\ndef test_reads():\n    assert Path('data/x.txt').read_text() == 'x'\n"


@pytest.mark.slow
async def test_data_that_git_ignores_is_named_and_can_be_allowed(call, tested):
    write(tested, {"data/x.txt": "x", ".gitignore": "data/\n.env\n", "test_reads.py": READS, ".env": "x"})
    git(tested, "init", "-q", "-b", "main", "--template=")
    with pytest.raises(EvidenceError, match="which git ignores") as refused:
        await call("run-tests", paths=["test_reads.py"])
    assert refused.value.remedy == "--allow run-tests:read=data/x.txt"
    found = await call("run-tests", paths=["test_reads.py"], data=["data"])
    assert (found.output["outcome"], found.output["exceptions"]) == ("passed", ["run-tests:read=data"])
    # A file that is nowhere is the test's own fault.
    write(tested, {"test_reads.py": READS.replace("data/x.txt", "data/gone.txt")})
    assert (await call("run-tests", paths=["test_reads.py"])).output["outcome"] == "failed"
    write(tested, {"test_reads.py": READS.replace("data/x.txt", ".env")})
    with pytest.raises(EvidenceError, match="is withheld from the sandbox"):
        await call("run-tests", paths=["test_reads.py"])


@pytest.mark.slow
async def test_the_network_is_there_only_where_it_is_allowed(call, tested):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        test = "import socket\n\n\ndef test_net():\n"
        test += f"    with socket.create_connection(('127.0.0.1', {port})):\n        pass\n"
        write(tested, {"test_net.py": test})
        found = await call("run-tests", paths=["test_net.py"], network=True)
        assert (found.output["outcome"], found.output["exceptions"]) == ("passed", ["run-tests:network"])
        write(
            tested, {"test_net.py": "import socket\n\n\ndef test_net():\n    socket.getaddrinfo('example.org', 80)\n"}
        )
        with pytest.raises(EvidenceError, match="uses the network") as refused:
            await call("run-tests", paths=["test_net.py"])
        assert refused.value.remedy == "--allow run-tests:network"


LIES = {
    "prints a fake result": "def test_lie():\n    print('99 passed')\n    assert False\n",
    "ends the process": "import os\n\n\ndef test_lie():\n    os._exit(0)\n",
    "exits well at the end": "import atexit, os\n\n\ndef test_lie():\n    atexit.register(os._exit, 0)\n    assert 0\n",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("lie", LIES)
async def test_a_test_that_pretends_to_pass_gains_nothing(call, tested, lie):
    (tested / "test_lie.py").write_text(LIES[lie])
    try:
        found = await call("run-tests", paths=["test_lie.py"], subject=["loop.py"])
    except EvidenceError as error:
        assert "exited with 0" in error.problem  # noqa: PT017 - one of two ways, each as good
    else:
        assert found.output["outcome"] == "failed"


@pytest.mark.slow
async def test_the_projects_own_options_for_coverage_and_several_processes_do_not_hide_what_ran(call, tested):
    settings = "[pytest]\naddopts = --strict-markers -p no:randomly\nfilterwarnings = error\n"
    write(tested, {"pytest.ini": settings, "test_loop.py": COUNTS})
    found = await call("run-tests", paths=["test_loop.py"], subject=["loop.py"])
    assert found.output["coverage"][0]["executed"] == 4


async def test_tests_of_a_change_say_what_of_it_they_executed_and_what_fails_without_it_too(call, tested):
    tests = "from loop import count, unused\n\n\ndef test_count():\n    assert count(3) == 3\n\n\n"
    write(tested, {"test_loop.py": tests + "def test_unused():\n    assert unused() == 2\n"})
    git(tested, "init", "-q")
    git(tested, "add", "-A")
    git(tested, "commit", "-qm", "one")
    (tested / "loop.py").write_text(LOOP.replace("total = 0", "total = 1").replace("return 1", "return 3"))
    found = await call("run-tests", paths=["."], subject=["loop.py"], since="HEAD")
    assert found.output["outcome"] == "failed"
    assert [claim.message for claim in found.claims] == [
        "the test test_count fails and passes without the change: assert 4 == 3; it executes the edit at loop.py:5"
    ]
    row = {"path": "loop.py", "lines": 2, "executed": 0, "blocks": 2, "executed_blocks": 0, "missed": [5, 12]}
    assert found.output["change"] == {
        "since": "HEAD",
        "files": [{**row, "failing": [5, 12]}],
        "tests": {"chosen": 2, "all": 3, "omitted_files": 0},
        "failing_before": ["test_loop.py::test_unused"],
    }
    assert "1 test fails without the change as well" in found.summary
    edits = "passing tests executed 0 of 2 edits (0 of 2 changed lines); a failing test executed loop.py:5 and 1 more"
    assert edits in found.summary


# Fails in the first run in a copy and passes in the second one.
FLAKY = (
    "import pathlib\nfrom loop import count\n\n\ndef test_flaky():\n    seen = pathlib.Path('runs')\n"
    "    number = len(seen.read_text()) if seen.exists() else 0\n    seen.write_text('x' * (number + 1))\n"
    "    assert count(3) == 3 and number == 1\n"
)


@pytest.mark.sample(1)
@pytest.mark.parametrize("since", ["", "HEAD"])
async def test_a_test_that_fails_in_some_runs_of_the_same_code_is_flaky_and_decides_nothing(call, tested, since):
    write(tested, {"test_flaky.py": FLAKY, "test_loop.py": COUNTS})
    git(tested, "init", "-q")
    git(tested, "add", "-A")
    git(tested, "commit", "-qm", "one")
    (tested / "loop.py").write_text(LOOP.replace("total += each", "total = total + each"))
    found = await call("run-tests", paths=["."], subject=["loop.py"], since=since)
    assert (found.output["outcome"], found.output["counts"]["passed"]) == ("flaky", 1 if since else 2)
    (claim,) = found.claims
    assert (claim.name, claim.severity, str(claim.location)) == ("test-flaky", Severity.WARNING, "test_flaky.py:5")
    without = " with the change and in 1 of 2 without it" if since else ""
    assert f"is flaky, so its result decides nothing: it fails in 2 of 3 runs{without}: assert" in claim.message
    # Those that passed still show what they executed.
    assert found.output["coverage"] == [{"path": "loop.py", "lines": 5, "executed": 4, "failing": 4}]


async def test_a_test_that_fails_in_every_run_with_the_change_and_in_none_without_it_decides_against(call, tested):
    write(tested, {"test_loop.py": COUNTS})
    git(tested, "init", "-q")
    git(tested, "add", "-A")
    git(tested, "commit", "-qm", "one")
    (tested / "loop.py").write_text(LOOP.replace("total = 0", "total = 1"))
    found = await call("run-tests", paths=["test_loop.py"], subject=["loop.py"], since="HEAD")
    assert found.output["outcome"] == "failed"
    assert "flaky" not in found.output
    (claim,) = found.claims
    assert claim.severity is Severity.CRITICAL
    assert "fails and passes without the change" in claim.message


async def test_a_missing_module_is_an_unknown_result_although_the_tests_of_the_base_fail_alike(call, tested):
    write(tested, {"test_loop.py": "import nosuchmodule\nfrom loop import count\n"})
    git(tested, "init", "-q")
    git(tested, "add", "-A")
    git(tested, "commit", "-qm", "one")
    (tested / "loop.py").write_text(LOOP.replace("total = 0", "total = 1"))
    with pytest.raises(EvidenceError, match="'nosuchmodule' is not installed for"):
        await call("run-tests", paths=["test_loop.py"], subject=["loop.py"], since="HEAD")
