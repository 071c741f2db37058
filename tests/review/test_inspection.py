"""Tests of inspections: files in question, their context, and the state of claims."""

from __future__ import annotations

import json
import subprocess

import pytest

from esper_agents.domain.request import Wish
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import ClaimState, inspect, inspect_sources

LOADS = InspectionSubject(topics=("security",))
SAFE = "import torch\n\nstate = torch.load('a.pt', weights_only=True)\n"
UNSAFE = "import torch\n\nstate = torch.load('a.pt', weights_only=False)\n"
WHOLE = {"checkpoint-loads"}


def loads(done):
    return next(result for result in done.results if result.name == "checkpoint-loads")


def test_a_claim_is_confirmed_refuted_or_open_by_the_facts():
    assert loads(inspect_sources({"a.py": UNSAFE}, LOADS)).state is ClaimState.CONFIRMED
    assert loads(inspect_sources({"a.py": SAFE}, LOADS)).state is ClaimState.REFUTED
    assert loads(inspect_sources({"a.py": "x = 1\n"}, LOADS)).state is ClaimState.OPEN


def test_a_rules_diagnostic_stands_for_the_same_fault_of_the_query():
    (fact,) = loads(inspect_sources({"a.py": UNSAFE}, LOADS)).facts
    assert (fact.rule, fact.assessment) == ("ESP901", Assessment.MUST_CHANGE)


def test_only_the_files_in_question_have_facts_and_the_project_is_their_context(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "a.py").write_text(SAFE)
    (tmp_path / "b.py").write_text(UNSAFE)
    done = inspect(tmp_path, [tmp_path / "a.py"], LOADS)
    assert {fact.path for fact in loads(done).facts} == {"a.py"}
    assert [each.path for each in done.examined] == ["a.py"]
    assert done.context_files == 1
    assert inspect(tmp_path, [tmp_path / "a.py"], LOADS, most_bytes=1).context_files == 0


def test_tests_are_left_out_unless_they_are_all_that_is_asked_about(tmp_path):
    (tmp_path / "a.py").write_text(SAFE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(UNSAFE)
    assert {fact.path for fact in loads(inspect(tmp_path, [tmp_path], LOADS)).facts} == {"a.py"}
    only = loads(inspect(tmp_path, [tmp_path / "tests" / "test_a.py"], LOADS)).facts
    assert {each.path for each in only} == {"tests/test_a.py"}


def test_a_fact_of_a_notebook_is_at_the_line_of_the_file(tmp_path):
    cell = {"cell_type": "code", "source": SAFE.splitlines(keepends=True), "metadata": {}, "outputs": []}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell], "nbformat": 4, "metadata": {}}, indent=1))
    (fact,) = loads(inspect(tmp_path, [tmp_path / "a.ipynb"], LOADS)).facts
    assert "torch.load" in (tmp_path / "a.ipynb").read_text().splitlines()[fact.line - 1]


def test_a_file_that_does_not_parse_is_named_and_the_others_are_inspected(tmp_path):
    (tmp_path / "a.py").write_text(UNSAFE)
    (tmp_path / "b.py").write_text("def f(:\n")
    done = inspect(tmp_path, [tmp_path], LOADS)
    assert [each.path for each in done.unreadable] == ["b.py"]
    assert {fact.path for fact in loads(done).facts} == {"a.py"}


def test_unknown_topics_and_queries_are_refused():
    with pytest.raises(UsageError, match="no query belongs"):
        inspect_sources({"a.py": SAFE}, InspectionSubject(topics=("weather",)))
    with pytest.raises(NotFoundError):
        inspect_sources({"a.py": SAFE}, LOADS, names=["no-such-query"])


SPLINES = (
    "import torch\n\n\ndef rational_spline(x):\n    return torch.sqrt(x)\n\n\nclass Base(torch.nn.Module):\n"
    "    def forward(self, x):\n        return self.transform_one(x)\n\n\nclass Spline(Base):\n"
    "    def transform_one(self, x):\n        step = rational_spline\n        return step(x)\n\n\n"
    "class Sibling(Base):\n"
    "    def transform_one(self, x):\n        return torch.acos(x)\n\n\n"
    "def unrelated(x):\n    return torch.acos(x)\n"
)


def test_a_cause_is_looked_for_in_the_code_that_runs_with_what_the_request_names():
    asked = InspectionSubject(("NaN or Inf",), Wish.FIND_CAUSE, ("a.py:Spline",))
    done = inspect_sources({"a.py": SPLINES}, asked)
    texts = [fact.text for result in done.results for fact in result.facts]
    assert [text for text in texts if "acos" in text] == []
    assert [text for text in texts if "torch.sqrt(x)" in text]
    everything = inspect_sources({"a.py": SPLINES}, InspectionSubject(("NaN or Inf",), Wish.FIND_CAUSE))
    assert len([fact for result in everything.results for fact in result.facts if "acos" in fact.text]) == 2
