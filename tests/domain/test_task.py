from __future__ import annotations

import shlex

import pytest

from esper_agents.domain.budget import read_budget
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task


def task(request="lgtm? ship it", paths=("train.py",), **changed):
    return Task(request, paths, QuestionType.GO, "ship", **changed)


def test_the_command_of_a_task_is_the_one_that_submitted_it_with_what_it_may_call():
    assert task().command(allow="run-tests") == "esper submit 'lgtm? ship it' train.py --allow run-tests"
    assert task().command("../train.py") == "esper submit 'lgtm? ship it' ../train.py"


@pytest.mark.parametrize("request_text", ["don't; rm -rf ~", '"$(id)"', "a\nb", "`x`"])
def test_a_shell_reads_back_what_was_asked(request_text):
    words = shlex.split(task(request_text, ("a b.py", "$x.py")).command(allow="run-tests"))
    assert words == ["esper", "submit", request_text, "a b.py", "$x.py", "--allow", "run-tests"]


def test_what_looks_like_an_option_is_kept_from_being_one():
    words = shlex.split(task("-x marks it", ("-y.py",)).command(allow="run-tests"))
    assert words == ["esper", "submit", "--allow", "run-tests", "--", "-x marks it", "-y.py"]


def test_options_budget_and_agent_stay_and_nothing_is_allowed_twice():
    options = {"deny": "shell", "allow": "run-tests run-tests:network", "reasoner": "playbook"}
    made = task(options=options, budget=read_budget("seconds=60,hops=3"), agent="profiler")
    command = made.command(allow="run-tests")
    assert command.count("--allow run-tests") == 2
    assert "--allow run-tests:network" in command
    assert "--deny shell" in command
    assert "--budget seconds=60,hops=3" in command
    assert command.endswith("--agent profiler")
    assert "--agent pytorch-code-reviewer" in made.command(agent="pytorch-code-reviewer")


def test_a_question_of_a_certificate_is_asked_by_its_name():
    assert task(again="crt_1").command(allow="run-tests") == "esper submit --again crt_1 --allow run-tests"
