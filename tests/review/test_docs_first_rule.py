"""Follow `docs/first-rule.md` in a copy of the package: its rule fires and its cases pass."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from esper_agents.review.blocks import Block
from esper_agents.review.catalogue import GROUP, catalogue
from esper_agents.review.tables import Call, FileTables, Function

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/first-rule.md").read_text(encoding="utf-8")
FILES = re.findall(r"^```python\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    (line, output)
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line, output in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]
CODE = "ESP499"
ESPER = "from esper_agents.cli.main import main; main()"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of what the page needs, with the files that it shows."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "esper_agents", root / "esper_agents", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tests/review").mkdir(parents=True)
    for name in ("conftest.py", "test_rules.py"):
        shutil.copy(ROOT / "tests/review" / name, root / "tests/review")
    for name in ("certificates", "prompts", "docs"):
        (root / name).symlink_to(ROOT / name)
    done = run(root, COMMANDS[0][0])
    assert done.returncode == 0, done.stderr
    for path, text in FILES:
        assert path == "train.py" or (root / path).exists(), f"{path} is not what `esper dev new` wrote"
        # The comment with the path stays, so that lines have the numbers of the page.
        (root / path).write_text(f"# {path}\n{text}", encoding="utf-8")
    return root


def run(checkout, line):
    words = shlex.split(line)
    command = {"python": [sys.executable], "esper": [sys.executable, "-c", ESPER]}[words[0]]
    alone = ["-c", os.devnull, f"--rootdir={checkout}", "-p", "no:cacheprovider"] if "pytest" in words else []
    environment = {**os.environ, "PYTHONPATH": str(checkout), "ESPER_HOME": str(checkout / "home"), "COLUMNS": "100"}
    return subprocess.run(
        [*command, *words[1:], *alone], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )


def test_the_page_shows_code_to_review_a_rule_and_its_cases():
    assert [path for path, _ in FILES] == [
        "train.py",
        "esper_agents/review/rules/copy_in_every_step.py",
        "tests/review/test_copy_in_every_step.py",
    ]
    assert len(COMMANDS) == 4


def test_the_table_of_what_a_rule_asks_names_existing_attributes_and_functions():
    table = PAGE.partition("| to find | use |\n")[2].partition("\n\n")[0]
    owners = {"file": FileTables, "call": Call, "function": Function, "block": Block}
    named = re.findall(r"\b(file|call|function|block)\.(\w+)", table)
    assert {owner for owner, _ in named} == set(owners)
    for owner, name in named:
        assert hasattr(owners[owner], name) or name in owners[owner].__annotations__, f"{owner}.{name}"
    for function, module in re.findall(r"`(\w+)\(\w+\)` of `([\w.]+)`", table):
        assert callable(getattr(import_module(module), function))


def test_no_rule_has_the_code_of_the_page():
    assert CODE not in {rule.code for rule in catalogue()}


@pytest.mark.slow
@pytest.mark.parametrize(("line", "output"), COMMANDS[1:], ids=[line for line, _ in COMMANDS[1:]])
def test_every_command_of_the_page_prints_what_it_shows(checkout, line, output):
    done = run(checkout, line)
    assert done.returncode == 0, done.stdout + done.stderr
    if output:
        shown = [each.rstrip() for each in done.stdout.splitlines()]
        expected = output.splitlines()
        assert shown[: len(expected)] == expected
    else:
        assert " passed" in done.stdout


def test_the_rule_has_a_page(checkout):
    done = run(checkout, f"esper rule {CODE}")
    assert done.stdout.startswith(f"# {CODE} copy-in-every-step\n"), done.stderr


def test_the_entry_point_of_the_page_is_one_that_is_read():
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert list(tomllib.loads(block)["project"]["entry-points"]) == [GROUP]
