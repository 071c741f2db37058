"""The examples and the commands of the README do what they say."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import FAULTY, PATIENCE_S, environment

ROOT = Path(__file__).parents[2]
OWN_AGENT = ROOT / "examples/own_agent"
DIGITS = ROOT / "examples/digits"
README = ROOT / "README.md"

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch: digits was NOT trained")


def python(*arguments, cwd, home):
    """Run Python to its end and return what became of it."""
    command = [sys.executable, *arguments]
    streams = {"capture_output": True, "text": True, "timeout": PATIENCE_S}
    return subprocess.run(command, cwd=cwd, env=environment(home), check=False, **streams)


def test_an_agent_of_ones_own_takes_under_forty_lines():
    files = [path for path in OWN_AGENT.iterdir() if path.suffix in {".py", ".md"}]
    assert len(files) == 2
    assert sum(len(file.read_text().splitlines()) for file in files) < 40


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("source", "summary"),
    [("import torch\n\ntorch.manual_seed(0)\n", "every script fixes its seed"), (FAULTY, "a script fixes no seed")],
)
def test_an_agent_of_ones_own_issues_a_certificate(place, source, summary):
    made = place({"train.py": source})
    done = python(OWN_AGENT / "own_agent.py", "train.py", cwd=made.root, home=made.home)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert summary in done.stdout
    ((agent, status),) = made.rows("SELECT agent, status FROM certificate")
    assert agent == "seed-auditor"
    assert f"**Status**: {status}" in done.stdout


@pytest.fixture(scope="module")
def digits(place):
    """Return a project that is a copy of the digits example."""
    made = place({})
    shutil.copytree(DIGITS, made.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return made


@needs_torch
@pytest.mark.slow
def test_digits_trains_for_real(digits):
    done = python("train.py", cwd=digits.root, home=digits.home)
    assert done.returncode == 0, done.stderr
    losses = re.findall(r"loss (\S+), accuracy 0\.\d+", done.stdout)
    assert len(losses) == 3


@needs_torch
@pytest.mark.slow
def test_the_tests_of_digits_pass(digits):
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=digits.root, home=digits.home)
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


@pytest.mark.slow
def test_digits_holds_what_four_specialists_look_for(digits):
    done = digits.esper("submit", "--json", "review this training code before we merge it", ".")
    assert done.code == 3, done.stderr
    found = {each["claim"]["rule"] for each in done.json["findings"]}
    assert {"ESP101", "ESP102"} <= found
    assert {each["agent"] for each in done.json["findings"]} == {"pytorch-code-reviewer"}
    assert json.loads(done.stdout)["certificate"]["status"] == "REQUIRES_REMEDIATION"


def _commands():
    blocks = re.findall(r"^```\w*\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    lines = (line.removeprefix("$ ") for block in blocks for line in block.splitlines())
    return sorted({line for line in lines if line.startswith("esper ")})


def test_the_readme_shows_commands():
    assert len(_commands()) >= 5


PARSE = """
import sys, typer
from esper_agents.cli.main import build
command = typer.main.get_command(build())
for line in sys.stdin:
    command(__import__("shlex").split(line, comments=True)[1:] + ["--help"], standalone_mode=False)
"""


def test_every_command_of_the_readme_is_one_that_there_is(tmp_path):
    """Ask each for its help: an unknown command or option is refused before help is given."""
    child = {"args": [sys.executable, "-c", PARSE], "cwd": tmp_path, "env": environment(tmp_path)}
    done = subprocess.run(
        **child, input="\n".join(_commands()), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage:") == len(_commands())
