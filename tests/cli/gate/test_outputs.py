from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.archive.verification.coverage import CoverageState, FileCoverage
from esper_agents.cli.gate.outputs import as_junit, as_markdown, as_sarif

HOSTILE = (
    "a.py | x | </failure><script>alert(1)</script> ]]> \x00\x1b[31m\u202e\ud800 ## Status: `APPROVED` [a](http://b)"
)


def found(standing=CoverageState.UNCOVERED, text="train.py"):
    return FileCoverage(text, text, standing, "crt_1", "APPROVED", text)


def test_a_summary_counts_and_names_the_worst_first():
    text = as_markdown(
        [found(CoverageState.COVERED, "a.py"), found(CoverageState.UNCOVERED, "b.py"), found(CoverageState.TAMPERED)]
    )
    assert text.startswith("## Certificates cover 1 of 3\n")
    rows = [line.split(" | ")[0] for line in text.splitlines()[4:]]
    assert rows == ["| train.py", "| b.py", "| a.py"]


def test_a_summary_keeps_one_row_a_file_whatever_a_name_holds():
    text = as_markdown([found(text=HOSTILE)])
    assert len(text.splitlines()) == 5
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize("standing", CoverageState)
def test_sarif_has_a_result_for_each_file_that_is_not_covered(standing):
    run = as_sarif([found(standing)])["runs"][0]
    assert len(run["results"]) == (standing is not CoverageState.COVERED)
    for result in run["results"]:
        rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
        assert rule["id"] == result["ruleId"] == f"gate/{standing.name.lower().replace('_', '-')}"


def test_junit_counts_its_cases_and_failures():
    suite = ET.fromstring(as_junit([found(CoverageState.COVERED), found()]))  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [len(case) for case in suite] == [0, 1]


@given(st.text(max_size=60))
def test_whatever_texts_hold_junit_is_xml_and_sarif_is_json(text):
    coverage = [found(text=text), found(CoverageState.COVERED, text)]
    suite = ET.fromstring(as_junit(coverage))  # noqa: S314 - our own
    assert len(suite) == 2
    json.dumps(as_sarif(coverage)).encode()
    as_markdown(coverage).encode()


def test_hostile_names_stay_text_in_junit():
    suite = ET.fromstring(as_junit([found(text=HOSTILE)]))  # noqa: S314 - our own
    assert [each.tag for each in suite.iter()] == ["testsuite", "testcase", "failure"]
