from __future__ import annotations

import shlex

import pytest

from esper_agents.domain.budget import read_budget
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task, short_request


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
    assert task(again="crt_1").command(allow="run-tests") == "esper submit --rerun crt_1 --allow run-tests"


def test_the_command_of_a_request_with_a_trace_prints_its_words_only():
    trace = 'why does it crash?\nTraceback (most recent call last):\n  File "a.py", line 1\nValueError: no\n'
    assert task(trace).command() == "esper submit 'why does it crash?' train.py"
    assert task(trace).is_long
    assert len(task("word " * 400).command()) < 330
    assert not task("one\ntwo").is_long


def test_material_alone_is_cut_and_a_short_request_stays_whole():
    assert len(short_request("Traceback (most recent call last):\n" + '  File "a.py", line 1\n' * 90)) <= 300
    assert short_request("is\nthis right?") == "is\nthis right?"
