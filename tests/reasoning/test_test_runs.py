"""A request to run tests: they run with permission, and without it no other answer takes their place."""

from __future__ import annotations

import pytest

from esper_agents.api import open_project
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Status

pytestmark = pytest.mark.anyio

REQUEST = "run the tests of the losses and tell me whether they pass"
FILES = {
    "losses.py": "def half(x):\n    return x / 2\n",
    "train.py": "from losses import half\n\n\ndef train(loss):\n    print(half(loss))\n",
    "tests/test_losses.py": "from losses import half\n\n\ndef test_half():\n    assert half(4) == 2\n",
    "tests/test_train.py": "def test_train():\n    raise AssertionError\n",
    "conftest.py": "",
}


@pytest.fixture
def root(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


async def run(project, answer, request=REQUEST):
    waiting = await (await project.tasks.submit(project.tasks.create(request, [project.root]))).run()
    assert waiting.state is SessionState.WAITING
    assert waiting.questions[0].tool == "run-tests"
    await (await project.approvals.answer("latest", answer)).run()
    return await project.certificates.read("latest")


async def test_the_tests_that_are_named_run_after_approval(root):
    async with open_project(root) as project:
        certificate = await run(project, "approve")
    assert certificate.agent == "test-engineer"
    assert certificate.summary.startswith("Ran the tests of tests/test_losses.py: 1 test passed")


async def test_a_failed_test_is_reported(root):
    async with open_project(root) as project:
        certificate = await run(project, "approve", "run all tests")
    assert "1 test failed" in certificate.summary
    assert certificate.findings


async def test_without_permission_it_is_said_that_no_test_ran(root):
    async with open_project(root) as project:
        certificate = await run(project, "deny")
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert certificate.summary.startswith("No test ran: a person denied this call.")
    (gap,) = certificate.gaps
    assert gap.what == "whether the tests pass"
    assert gap.command == f"esper submit '{REQUEST}' . --allow run-tests"
