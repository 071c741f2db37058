"""Suites are read strictly, answers are scored by what they state, and runs are compared."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from esper_agents.api import chosen_tasks, load_suite, prompts_digest, read_run, run_suite, run_text, suite_names
from esper_agents.domain.answer import Answer, AnswerFact, AnswerLine
from esper_agents.domain.evaluation import EvalTask, ExpectedStatement, differences, score
from esper_agents.domain.status import QuestionType, Status
from esper_agents.domain.usage import Expense
from esper_agents.errors import InputFileError, NotFoundError
from esper_agents.paths import home

REPLIES = Path(__file__).parents[2] / "benchmarks" / "eval_replies.py"
LOOP = """\
[[task]]
name = "loop"
request = "review train.py"
facts = [{ text = "nothing clears the gradients", any = ["zero_grad", "clear"], place = "train.py:5-9" }]
false = [{ text = "it is the learning rate", any = ["learning rate"] }]
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
CLEARED = ExpectedStatement("cleared", ("zero_grad",), "train.py", 5, 9)


@pytest.fixture
def suite(tmp_path):
    """Write a suite and return it."""

    def make(text=LOOP, name="mine.toml"):
        (tmp_path / name).write_text(text)
        return load_suite(str(tmp_path / name))

    return make


def answer(**parts):
    return Answer("crt_1", QuestionType.APPROVAL, Status.REJECTED, "1 file", **{"text": "No.", **parts})


def scored(task, given):
    return score(task, given, agent="reviewer", expense=Expense())


def task_with(**parts):
    return EvalTask("one", "review", {"train.py": "x = 1\n"}, **parts)


@pytest.mark.parametrize(
    ("given", "is_stated"),
    [
        (answer(because=(AnswerLine("nothing calls zero_grad", "train.py:7"),)), True),
        (answer(because=(AnswerLine("gradients grow", "train.py:7", remedy="call zero_grad()"),)), True),
        (answer(because=(AnswerLine("nothing calls zero_grad", "a.py:7", more_places=("train.py:9",)),)), True),
        (answer(facts=(AnswerFact("open", "train.py:5", "zero_grad is called elsewhere"),)), True),
        (answer(text="zero_grad is missing at train.py:3-6."), True),
        (answer(because=(AnswerLine("nothing calls zero_grad", "train.py:12"),)), False),
        (answer(because=(AnswerLine("nothing calls zero_grad", "other.py:7"),)), False),
        (answer(because=(AnswerLine("gradients grow", "train.py:7"),)), False),
        (answer(text="zero_grad is missing. See train.py:7."), False),
    ],
)
def test_a_fact_is_stated_by_one_statement_that_has_its_words_and_its_place(given, is_stated):
    found = scored(task_with(facts=(CLEARED,)), given)
    assert (found.stated, found.missing) == ((("cleared",), ()) if is_stated else ((), ("cleared",)))


def test_a_forbidden_statement_is_counted_once_however_often_it_is_made():
    wrong = ExpectedStatement("learning rate", ("learning rate",))
    said = answer(text="The learning rate is too high.", also=(AnswerLine("lower the learning rate", "train.py:1"),))
    assert scored(task_with(false_statements=(wrong,)), said).false_statements == ("learning rate",)


def test_each_warning_about_a_program_without_a_fault_is_false_and_a_suggestion_is_not():
    lines = [AnswerLine(f"it is {name}", "train.py:1", "ESP1", name) for name in ("critical", "warning", "suggestion")]
    found = scored(task_with(is_clean=True), answer(also=tuple(lines)))
    assert found.false_statements == ("train.py:1: it is critical", "train.py:1: it is warning")


def test_a_suite_is_read_with_its_tasks_and_statements(suite):
    (task,) = suite().tasks
    assert task.facts[0].path == "train.py"
    assert (task.facts[0].first_line, task.facts[0].last_line) == (5, 9)
    assert task.files["train.py"].startswith("import torch\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"contains no \[\[task\]\]"),
        ("[[task]", "is not TOML"),
        ('[[task]]\nname = "a"\n', "lacks 'files'"),
        (LOOP.replace("request =", "ask ="), "unknown key 'ask'"),
        (LOOP.replace('"train.py" =', '"../train.py" ='), "lies outside the project"),
        (LOOP.replace('"clear"]', '"(clear"]'), "invalid regular expression"),
        (LOOP.replace('any = ["learning rate"]', "any = []"), "has neither"),
        (LOOP + LOOP, "two tasks are named 'loop'"),
        ('[[task]]\nname = "a"\nrequest = "b"\nfiles = {}\n', "expects nothing"),
    ],
)
def test_a_suite_that_cannot_be_used_is_refused_with_the_reason(suite, text, said):
    with pytest.raises(InputFileError, match=said):
        suite(text)


def test_an_unknown_suite_or_task_is_refused_with_the_known_ones(suite):
    with pytest.raises(NotFoundError, match="no suite named 'pytorhc'"):
        load_suite("pytorhc")
    with pytest.raises(NotFoundError, match="no task named 'lop'"):
        chosen_tasks(suite(), ["lop"])


def test_the_included_suite_has_forty_tasks_and_every_place_is_a_line_of_its_file():
    assert "pytorch" in suite_names()
    tasks = load_suite("pytorch").tasks
    assert len(tasks) == 40
    for task in tasks:
        for text in task.files.values():
            compile(text, task.name, "exec")
        for each in (*task.facts, *task.false_statements):
            lines = len(task.files[each.path].splitlines()) if each.path else 0
            assert each.last_line <= lines, (task.name, each.text)
            assert each.first_line <= max(each.last_line, 0)


@pytest.mark.anyio
async def test_a_run_by_playbooks_states_the_fact_and_leaves_nothing_behind(suite):
    before = {path.name for path in (home() / "projects").glob("*")}
    seen = []
    run = await run_suite(suite(), on_score=seen.append)
    assert (run.stated, run.facts, run.false_statements, run.failed) == (1, 1, 0, 0)
    assert [each.task for each in seen] == ["loop"]
    assert run.prompts_sha256 == prompts_digest()
    assert {path.name for path in (home() / "projects").glob("*")} == before


@pytest.mark.anyio
async def test_a_task_that_cannot_run_is_counted_and_does_not_end_the_run(suite):
    broken = LOOP.replace('name = "loop"', 'name = "broken"\nagent = "nobody-here"')
    run = await run_suite(suite(broken + LOOP))
    assert [bool(each.problem) for each in run.scores] == [True, False]
    assert (run.failed, run.facts, run.stated) == (1, 2, 1)


@pytest.mark.anyio
async def test_a_run_is_stored_and_compared_with_another(suite, tmp_path):
    run = await run_suite(suite())
    file = tmp_path / "run.json"
    file.write_text(run_text(run))
    assert read_run(file) == run
    worse = replace(run.scores[0], stated=(), missing=run.scores[0].stated, false_statements=("it is the rate",))
    (found,) = differences(run, replace(run, scores=(worse,)))
    assert (found.lost, found.gained, found.new_false) == (run.scores[0].stated, (), ("it is the rate",))
    assert differences(run, run) == ()
    file.write_text("{}")
    with pytest.raises(InputFileError, match="is not the result of a run"):
        read_run(file)


def test_recorded_replies_of_a_model_are_scored_by_the_present_version(tmp_path):
    command = [sys.executable, str(REPLIES), "--task", "clean-ddp", "--task", "layers-in-a-plain-list"]
    done = subprocess.run(
        [*command, "--output", str(tmp_path / "run.json")], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    clean, lists = read_run(tmp_path / "run.json").scores
    assert (clean.false_statements, clean.problem, lists.problem) == ((), "", "")
    assert lists.stated == ("layers in a plain list are not registered",)
    assert lists.expense.turns == 2
