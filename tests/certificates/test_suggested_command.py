"""Commands that are suggested parse, name what only a user can fill in, and fit the directory of the user."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import esper_agents
from esper_agents.certificates.suggested_command import (
    is_complete,
    missing_paths,
    placeholders,
    problem_of,
    seen_from,
    suggested_command,
)
from esper_agents.paths import data_folder

PACKAGE = Path(esper_agents.__file__).parent
# Packages and modules whose strings become commands of gaps, of `next`, of `fix:` and of reports.
SUGGESTING = ("reasoning", "orchestration", "learning", "api", "tools")
_QUOTED = re.compile(r"`(esper [a-z][^`]*)`")


def commands_in(text):
    """Return the commands of a text: the whole text, or what is in backticks."""
    if re.match(r"esper [a-z]", text):
        return [text]
    return _QUOTED.findall(text)


def texts_of(tree):
    """Yield the string constants of a module except docstrings, with a path for each value of an f-string."""
    docstrings = {
        id(each.body[0].value)
        for each in ast.walk(tree)
        if isinstance(each, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and each.body
        and isinstance(each.body[0], ast.Expr)
    }
    parts = {id(part) for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) for part in each.values}
    for each in ast.walk(tree):
        if isinstance(each, ast.JoinedStr):
            text = ""
            for part in each.values:
                # A value that continues a word is an ending or an option, and may be empty.
                text += (
                    part.value if isinstance(part, ast.Constant) else "train.py" * (text[-1:] in {" ", "'", '"', ""})
                )
            yield text
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and not {id(each)} & (docstrings | parts):
            yield each.value.replace("{path}", "train.py")


def suggested():
    for name in SUGGESTING:
        for file in sorted((PACKAGE / name).rglob("*.py")):
            for text in texts_of(ast.parse(file.read_text(encoding="utf-8"))):
                # The command of a new measurement exists once its files do.
                for command in (each for each in commands_in(text) if " $name" not in each):
                    yield f"{file.relative_to(PACKAGE)}: {command}"
    for file in ("policy.toml", "question_kinds.toml"):
        for command in _QUOTED.findall((data_folder("certificates") / file).read_text(encoding="utf-8")):
            yield f"{file}: {command}"


SUGGESTED = sorted(set(suggested()))


def test_the_search_for_suggested_commands_finds_them():
    assert len(SUGGESTED) > 40


@pytest.mark.parametrize("found", SUGGESTED)
def test_each_command_that_the_program_suggests_parses_on_the_real_command_line(found):
    command = found.partition(": ")[2]
    assert problem_of(command) == ""
    assert suggested_command(command)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("esper ask size", "no command"),
        ("esper compare a.py:f b.py:g", "no command"),
        ("esper torch compare", "needs 1 arguments"),
        ("esper torch compare a.py:f b.py:g c.py:h", "takes 2 arguments"),
        ("esper submit --fast 'review' a.py", "no option --fast"),
        ("esper submit 'review' a.py --allow", "--allow needs a value"),
        ("esper submit 'review' --reasoner oracle", "no choice 'oracle'"),
        ("esper submit 'review", "cannot split"),
        ('esper submit "... FILE.py:NAME with randn(32,128)" a.py', "omission"),
        ("measure the batch size", "not a command"),
        ("Look at it.", "not a command"),
        ("", "not a command"),
    ],
)
def test_a_command_that_would_not_parse_is_not_suggested(command, problem):
    assert problem in problem_of(command)
    assert suggested_command(command) == ""


@pytest.mark.parametrize(
    "command",
    [
        "esper submit 'may this ship?' a.py --allow run-tests",
        "esper submit --rerun crt_01 --allow run-tests # after adding tests that call a.py",
        "esper review --category memory -- -odd.py",
        "esper torch memory a.py:Net --device=cuda",
        "esper certificates show latest",
        "git diff HEAD -- a.py",
        "CUDA_LAUNCH_BLOCKING=1 python train.py",
        "du -sh data",
        "nvidia-smi",
        "git status",
    ],
)
def test_a_command_that_runs_as_printed_is_suggested_unchanged(command):
    assert suggested_command(command) == command
    assert is_complete(command)


def test_a_placeholder_that_only_a_user_can_fill_in_is_described():
    made = suggested_command("esper torch compare a.py:f FILE.py:NEW")
    assert made == "esper torch compare a.py:f FILE.py:NEW # FILE.py:NEW: the other version"
    assert suggested_command(made) == made
    assert not is_complete(made)


def test_words_of_a_request_are_no_placeholders():
    command = "esper submit 'is the NEW loader # 3 better than the OLD one?' a.py"
    assert placeholders(command) == ()
    assert suggested_command(command) == command


def test_files_that_do_not_exist_are_reported_and_words_of_requests_and_revisions_are_not(tmp_path):
    (tmp_path / "a.py").touch()
    assert missing_paths("esper submit 'look at b.py' a.py --diff origin/main", tmp_path) == ()
    assert missing_paths("esper submit 'look' a.py gone.py", tmp_path) == ("gone.py",)
    assert missing_paths("esper torch nan a.py:f --inputs gone.py:g", tmp_path) == ("gone.py:g",)
    assert missing_paths("esper torch nan a.py:f --inputs FILE:FUNCTION", tmp_path) == ()
    assert missing_paths("esper why crt_01", tmp_path) == ()


def test_paths_fit_the_directory_of_the_user(tmp_path):
    here = tmp_path / "sub"
    here.mkdir()
    command = "esper submit 'is a.py right?' sub/a.py top.py --allow run-tests # after adding tests"
    assert seen_from(command, tmp_path, tmp_path) == command
    assert seen_from(command, tmp_path, here) == (
        f"esper submit 'is a.py right?' a.py {tmp_path}/top.py --allow run-tests # after adding tests"
    )
