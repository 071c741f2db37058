"""`esper eval` through the real entry point."""

from __future__ import annotations

import json

import pytest
from modelling import served
from places import command

from esper_agents.testing.script import ToolUseBlock

SUITE = """\
[[task]]
name = "loop"
request = "review train.py"
facts = [
  { text = "nothing clears the gradients", any = ["zero_grad", "clear"], place = "train.py:5-9" },
  { text = "it is a poem", any = ["poem"] },
]
[task.files]
"train.py" = '''
import torch


def train(model, loader, optimizer, loss_fn):
    for x, y in loader:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
'''
"""


@pytest.fixture
def esper(tmp_path):
    """Run the command in a folder that has a suite."""
    (tmp_path / "mine.toml").write_text(SUITE)

    def run(*words):
        return command("eval", *words, cwd=tmp_path)

    return run


def test_a_run_lists_missing_facts_and_ends_with_the_figures(esper):
    done = esper("mine.toml")
    assert done.returncode == 0
    assert "missing: it is a poem" in done.stdout
    assert "1 of 2 stated (50.0 %)" in done.stdout
    assert "0 false statements" in done.stdout
    assert "no model used" in done.stdout


def test_json_has_the_scores_and_nothing_else_is_printed(esper):
    done = esper("mine.toml", "--json")
    told = json.loads(done.stdout)
    assert (told["stated"], told["facts"], told["false_statements"], told["failed"]) == (1, 2, 0, 0)
    assert told["scores"][0]["missing"] == ["it is a poem"]
    assert len(told["prompts_sha256"]) == 64
    assert told["expense"] is None


def test_a_run_by_a_model_has_its_cost_and_is_compared_with_that_of_playbooks(esper, monkeypatch, tmp_path):
    esper("mine.toml", "--output", "before.json")
    said = ToolUseBlock("conclude", {"summary": "It reads like a poem."})
    with served(lambda _: said, monkeypatch):
        done = esper("mine.toml", "--reasoner", "claude", "--output", "after.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "after.json").read_text())["scores"][0]["expense"]["turns"] == 1
    compared = esper("--compare", "before.json", "after.json")
    assert "gained: it is a poem" in compared.stdout
    assert "2 of 2 stated (100.0 %)" in compared.stdout


def test_tasks_are_listed_without_a_run(esper):
    done = esper("mine.toml", "--list")
    assert "review train.py" in done.stdout
    assert "stated" not in done.stdout


@pytest.mark.parametrize(
    ("words", "problem", "fix"),
    [
        (("nosuch",), "no suite named 'nosuch'", "esper eval --list"),
        (("mine.toml", "--task", "lop"), "no task named 'lop'", "loop"),
        (("mine.toml", "--output", "no/such/x.json"), "is not a folder", "existing folder"),
        (("--compare", "mine.toml", "mine.toml"), "is not the result of a run", "esper eval SUITE --output"),
    ],
)
def test_what_cannot_be_run_is_refused_in_two_lines(esper, words, problem, fix):
    done = esper(*words)
    assert done.returncode == 2
    assert problem in done.stderr
    assert fix in done.stderr
    assert "Traceback" not in done.stderr


def test_runs_of_different_suites_are_not_compared(esper, tmp_path):
    esper("mine.toml", "--output", "a.json")
    (tmp_path / "mine.toml").write_text(SUITE.replace("poem", "song"))
    esper("mine.toml", "--output", "b.json")
    done = esper("--compare", "a.json", "b.json")
    assert done.returncode == 2
    assert "different suites" in done.stderr
