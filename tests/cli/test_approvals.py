"""`esper approvals` and the rules about tools, through the real entry point, as `docs/approvals.md` says they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from command_line import build
from places import SOUND, Place, git, write

from esper_agents.cli.answer_prompt import choice, commands
from esper_agents.domain.answer_type import AnswerType
from esper_agents.domain.ledger import UserQuestion
from esper_agents.domain.permission_rule import RuleSource
from esper_agents.orchestration.settings import read_rules

TEXT = (Path(__file__).parents[2] / "docs/approvals.md").read_text(encoding="utf-8")
ASKED = ("submit", "review this training code and run the tests", "train.py", "tests")
TEST = "def test_it():\n    assert True\n"
HOSTILE = '[[rule]]\ntool = "*"\naction = "deny"\nreason = "it is \u202e\\u00e9"\n'


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("approvals")
    root = folder / "toy"
    write(root, {"train.py": SOUND, "tests/test_it.py": TEST, ".gitignore": "__pycache__/\n"})
    git(root, "init", "-q", "-b", "main", "--template=")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    made = Place(root, folder / "home")
    return made, made.esper(*ASKED, code=9)


@pytest.fixture
def waiting(template, tmp_path):
    return template[0].with_home(tmp_path / "home")


@pytest.fixture
def settings(waiting):
    """Return what writes the settings of the person; those of the project are removed after the test."""

    def say(text):
        file = waiting.home / "config.toml"
        file.write_text(text)
        file.chmod(0o600)

    yield say
    (waiting.root / ".esper/config.toml").unlink(missing_ok=True)


def projects(place, text):
    write(place.root, {".esper/config.toml": text})


def test_what_waits_is_listed_with_the_commands_that_answer_it(waiting):
    listed = waiting.esper("approvals", "list", code=0).stdout
    (told,) = waiting.esper("approvals", "list", "--json", code=0).json
    assert told["tool"] == "run-tests"
    assert told["session"].startswith("ses_")
    assert told["since"].endswith("Z")
    assert told["options"] == ["approve", "deny"]
    end = told["id"][-12:]
    assert told["commands"] == [f"esper approve qst_{end}", f"esper deny qst_{end}"]
    assert listed.startswith(f"qst_{end} since {told['since'][:10]}")
    for command in told["commands"]:
        assert f"answer: {command}\n" in listed
    assert "run-tests" in listed


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [("approvals", "deny"), ("deny",), ("approvals", "answer"), ("answer",)])
def test_the_commands_of_the_group_are_those_beside_it(waiting, how):
    (told,) = waiting.esper("approvals", "list", "--json", code=0).json
    more = ("deny",) if how[-1] == "answer" else ()
    done = waiting.esper(*how, told["id"], *more)
    assert done.code == 0
    assert waiting.esper("approvals", "list", code=0).stdout == "nothing waits for you\n"
    assert waiting.esper("approvals", "list", "--json", code=0).json == []
    problem, remedy = waiting.esper("approvals", "approve", told["id"]).problem(2)
    assert problem == f"question {told['id']} is already answered: 'deny'"
    assert "the first answer applies" in remedy


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("approve", "qst_" + "0" * 32), "no question named"),
        (("approve", ""), "no question named"),
        (("deny", "qst_"), "no question named"),
        (("answer", "latest", "perhaps"), "'perhaps' is not a valid answer to this question"),
    ],
)
def test_an_answer_to_nothing_or_of_no_kind_is_refused_and_nothing_is_lost(waiting, arguments, problem):
    before = waiting.kept()
    said, _ = waiting.esper("approvals", *arguments).problem(2)
    assert said.startswith(problem)
    assert waiting.kept() == before


def test_nothing_that_an_agent_wrote_is_in_a_command():
    hostile = UserQuestion("qst_" + "0" * 32, "x", ('$(rm -rf ~)"', "b"), "", {}, "")
    assert commands(hostile) == ("esper answer qst_000000000000 ANSWER",)
    assert choice(UserQuestion("q", "x", (), "", {}, "", AnswerType.INTEGER)) == " [integer]"
    assert choice(UserQuestion("q", "x", (), "", {}, "")) == ""


def test_with_a_rule_of_the_person_the_tool_runs_unasked(waiting, settings):
    settings('[[rule]]\ntool = "run-tests"\naction = "allow"\n')
    done = waiting.esper(*ASKED, code=0)
    assert "rules      allow run-tests, by your settings" in done.stdout
    assert len(waiting.esper("approvals", "list", "--json", code=0).json) == 1


@pytest.mark.slow
def test_a_rule_of_the_project_that_allows_is_ignored_and_said_so(waiting, settings):
    settings("")
    projects(waiting, '[[rule]]\ntool = "run-tests"\naction = "allow"\n')
    waiting.esper(*ASKED, code=9)
    plan = waiting.esper("submit", "--dry-run", *ASKED[1:], code=0).stdout
    assert "ignored    the project's settings: allow run-tests; allow rules are accepted" in plan
    assert "run-tests (risk medium, asks you first)" in plan
    told = waiting.esper("doctor").stdout
    assert "ignored: the project's settings: allow run-tests; allow rules are accepted only in user settings" in told
    assert waiting.esper("doctor", "--json").json["ignored"] == ["the project's settings: allow run-tests"]


def test_a_rule_of_the_project_takes_away_what_the_person_allows(waiting, settings):
    settings('[[rule]]\ntool = "run-tests"\naction = "allow"\n')
    projects(waiting, '[[rule]]\ntool = "run-*"\naction = "deny"\nreason = "they cost money"\n')
    done = waiting.esper(*ASKED)
    assert done.code == 0
    assert "run-tests denied: not allowed, because of the project's settings: deny run-*" in " ".join(
        done.stdout.split()
    )
    told = waiting.esper("doctor").stdout
    assert "rule: your settings: allow run-tests\n" in told
    assert "rule: the project's settings: deny run-* (they cost money)\n" in told


@pytest.mark.slow
def test_a_tool_that_a_task_denies_is_not_asked_about(waiting):
    done = waiting.esper(*ASKED, "--deny", "run-tests", code=0)
    assert "because of the task: deny run-tests" in " ".join(done.stdout.split())
    problem, remedy = waiting.esper(*ASKED, "--deny", "run-test").problem(2)
    assert problem == "no tool named 'run-test'"
    assert "'run-tests'" in remedy
    waiting.esper(*ASKED, "--ask", "read-file", "--ask", "static-*", code=9)
    asked = [each["tool"] for each in waiting.esper("approvals", "list", "--json", code=0).json]
    assert {"static-review"} <= set(asked)


def test_settings_that_cannot_be_read_are_a_problem_with_a_line(waiting, settings):
    settings("")
    projects(waiting, '[[rule]]\ntool = "run-tests"\nacton = "deny"\n')
    problem, remedy = waiting.esper(*ASKED).problem(2)
    assert problem == ".esper/config.toml:3: unknown member 'acton' in a rule"
    assert remedy == "remove it; supported are tool, arguments, action, reason"
    done = waiting.esper("doctor", code=1)
    assert "wrong: .esper/config.toml:3: unknown member 'acton' in a rule" in done.stdout
    assert waiting.esper("approvals", "list", code=0).stdout.startswith("qst_")


def test_what_a_project_writes_into_a_rule_cannot_move_the_cursor_or_hide_anything(waiting, settings):
    settings("")
    projects(waiting, HOSTILE)
    problem, _ = waiting.esper(*ASKED).problem(2)
    assert problem == ".esper/config.toml:4: reason must be one line of text"


SHOWN = sorted(set(re.findall(r"^(esper [^#\n]*?)(?: +#.*)?$", TEXT, re.MULTILINE)))


@pytest.fixture(scope="module")
def command():
    return typer.main.get_command(build())


@pytest.mark.parametrize("line", SHOWN)
def test_every_command_and_option_that_is_shown_exists(command, line):
    found, words = command, line.split()[1:]
    while words and hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
    known = {opt for parameter in found.params for opt in parameter.opts}
    assert set(re.findall(r"--[\w-]+", line)) <= known


def test_the_settings_that_are_shown_are_read_as_they_stand():
    (first, second) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert {str(rule.action) for rule in read_rules(first, "config.toml", RuleSource.PERSON)} == {
        "allow",
        "deny",
    }
    assert {str(rule.action) for rule in read_rules(second, ".esper/config.toml", RuleSource.PROJECT)} <= {
        "ask",
        "deny",
    }


def test_the_json_that_is_listed_holds_what_the_page_says(waiting):
    (told,) = waiting.esper("approvals", "list", "--json", code=0).json
    names = re.search(r"`--json` prints (.*?)\.", TEXT, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", names[1])) == set(json.loads(json.dumps(told)))
