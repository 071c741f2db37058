from __future__ import annotations

import asyncio

import pytest

from esper_agents.errors import EvidenceError
from esper_agents.tools.run_tests import run_tests

pytestmark = pytest.mark.anyio


@pytest.fixture
def tested(project):
    (project / "test_good.py").write_text("def test_good():\n    assert 1 + 1 == 2\n")
    return project


async def test_tests_that_pass_are_said_to_pass(call, tested):
    found = await call("run-tests", paths=["test_good.py"])
    assert found.output["exit_code"] == 0
    assert "1 passed" in found.summary
    assert found.claims == ()


async def test_a_test_that_fails_is_a_finding_at_its_line(call, tested):
    (tested / "test_bad.py").write_text("import pytest\n\n\ndef test_bad():\n    assert 1 + 1 == 3\n")
    found = await call("run-tests", paths=["test_good.py", "test_bad.py"])
    (claim,) = found.claims
    assert found.output["exit_code"] == 1
    assert (str(claim.location), claim.excerpt) == ("test_bad.py:4", "def test_bad():")
    assert "test_bad" in claim.message
    assert [each.path for each in found.examined] == ["test_bad.py", "test_good.py"]


async def test_a_file_that_does_not_even_start_is_a_finding_or_no_measurement_but_never_a_pass(call, tested):
    (tested / "test_broken.py").write_text("import nosuchmodule\n")
    try:
        found = await call("run-tests", paths=["test_broken.py"])
    except EvidenceError as error:
        assert "pytest" in error.problem  # noqa: PT017 - one of two ways, each as good
    else:
        assert found.claims


async def test_no_tests_are_no_measurement(call, tested):
    (tested / "empty.py").write_text("x = 1\n")
    with pytest.raises(EvidenceError, match=r"pytest found no tests in empty\.py") as refused:
        await call("run-tests", paths=["empty.py"])
    assert refused.value.remedy == run_tests.rerun({"paths": ["empty.py"]})


async def test_tests_that_take_too_long_are_stopped_with_everything_they_started(call, tested):
    (tested / "test_slow.py").write_text(
        "import os, subprocess, time\n\n\ndef test_slow():\n"
        "    child = subprocess.Popen(['sleep', '1000'])\n"
        "    open('child.pid', 'w').write(str(child.pid))\n    time.sleep(1000)\n"
    )
    with pytest.raises(EvidenceError, match="the tests ran over 3 s"):
        await call("run-tests", paths=["test_slow.py"], timeout_s=3)
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


async def test_secrets_do_not_reach_the_code_that_is_tested(call, tested, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ESPER_DATABASE_URL", "AWS_PROFILE", "HF_TOKEN", "MY_PASSWORD", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "seekret")
    monkeypatch.setenv("HARMLESS", "shown")
    (tested / "test_environment.py").write_text(
        "import os\n\n\ndef test_environment():\n    open('environment', 'w').write(repr(dict(os.environ)))\n"
    )
    await call("run-tests", paths=["test_environment.py"])
    seen = (tested / "environment").read_text()
    assert "shown" in seen
    assert "seekret" not in seen


@pytest.mark.parametrize("path", ["..", "/etc", "../test_x.py", "-pno:terminal"])
async def test_paths_outside_the_project_and_options_are_refused(call, tested, path):
    with pytest.raises(EvidenceError):
        await call("run-tests", paths=[path])
