"""Reports of the pytest plugin are written by the project's own tests, and are read with care."""

import json

import pytest

from esper_agents.errors import EvidenceError
from esper_agents.tools.pytest_process import PytestProcess
from esper_agents.tools.pytest_report import lines_of, read_report

FAILED = {"test": "test_a.py::test_one", "path": "/tree/test_a.py", "line": 3, "why": "assert 1 == 2"}
WHOLE = {
    "exit_code": 1,
    "counts": {"passed": 2, "failed": 1, "errors": 0, "skipped": 0},
    "executed": {"/tree/net.py": [1, 2]},
    "failing": {},
    "executing": {"count": 2, "tests": ["test_a.py::test_two"]},
    "failures": [FAILED],
    "broken": [],
    "ran": ["/tree/test_a.py"],
    "passed": [],
}


@pytest.fixture
def report(tmp_path):
    def written(body):
        file = tmp_path / "report.json"
        file.write_text(json.dumps(body) if isinstance(body, dict) else body)
        return file

    return written


def test_a_report_has_its_tests_and_executed_lines(report, tmp_path):
    found = read_report(report(WHOLE))
    assert (found.counts.passed, found.has_failed, found.listed[0].name) == (2, True, "test_a.py::test_one")
    assert lines_of(found.executed, tmp_path / "net.py") == set()
    here = {str((tmp_path / "net.py").resolve()): (4, 5)}
    assert lines_of(here, tmp_path / "net.py") == {4, 5}


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_is_not_json_is_no_report(report, text):
    assert read_report(report(text)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"counts": {"passed": 2}},
        {"failures": ["test_a.py"]},
        {"executed": {"/tree/net.py": ["all"]}},
        {"exit_code": None},
        {"executing": None},
    ],
)
def test_a_report_with_a_wrong_member_cannot_be_read(report, change):
    process = PytestProcess({}, report({**WHOLE, **change}))
    with pytest.raises(EvidenceError, match="the report of the tests cannot be read"):
        process.result()


def test_a_message_may_hold_half_a_surrogate_pair(report):
    found = read_report(report({**WHOLE, "failures": [{**FAILED, "why": "no \udcff here"}]}))
    assert found.failures[0].why == "no ? here"
