"""Tests of the benchmark that samples facts for judgement and counts the verdicts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from query_precision import draw, tally

from esper_agents.review.fact_query import Assessment
from esper_agents.review.facts.unordered_data import UnorderedData

LOADS = "import torch\n\n" + "".join(f"a{n} = torch.load('a{n}.pt', weights_only=False)\n" for n in range(4))
LISTS = f"import pickle\n\nwith open('a', 'rb') as file:\n    a = pickle.load(file)\n{UnorderedData.bad}"
WEIGHTY = (Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK)


@pytest.fixture
def packages(tmp_path):
    for name, text in (("one", LOADS), ("two", LISTS)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.py").write_text(text)
    return tmp_path


def test_a_sample_is_the_same_for_a_seed_and_takes_queries_and_packages_in_turn(packages):
    rows = draw(packages, 4, 3, WEIGHTY)
    assert rows == draw(packages, 4, 3, WEIGHTY)
    loads = [row["package"] for row in rows if row["query"] == "checkpoint-loads"]
    assert loads[:2] == ["one", "two"]
    assert "unordered-data" in {row["query"] for row in rows}
    assert all(f"{row['line']}: " in "\n".join(row["source"]) for row in rows)


def test_only_the_assessments_that_are_asked_for_are_drawn(packages):
    assert {each["assessment"] for each in draw(packages, 99, 0, (Assessment.MUST_CHANGE,))} == {"must change"}


def test_verdicts_are_counted_by_query_and_assessment_and_unknown_ones_are_refused(packages):
    rows = draw(packages, 5, 0, WEIGHTY)
    rows[0]["verdict"], rows[1]["verdict"] = "true", "false"
    lines = tally(rows).splitlines()
    assert lines[0] == f"2 of {len(rows)} facts are judged"
    assert lines[2].split()[:6] == ["all", "2", "1", "0", "1", "50%"]
    rows[2]["verdict"] = "yes"
    with pytest.raises(SystemExit, match="line 3: 'yes'"):
        tally(rows)
