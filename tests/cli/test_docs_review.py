"""What `docs/review.md` says of the command is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from esper_agents.cli.review import register
from esper_agents.review.catalogue import catalogue

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/review.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
OF_TYPER = {"--help", "--install-completion", "--show-completion"}
COMMANDS = sorted(set(re.findall(r"esper review[^`\n#|]*", TEXT)))


@pytest.fixture(scope="module")
def options():
    app = typer.Typer()
    register(app)
    command = typer.main.get_command(app)
    return {
        name
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_that_is_shown_exists(options, command):
    assert set(re.findall(r"--[\w-]+", command)) <= options


def test_every_option_is_told_of(options):
    told = set(re.findall(r"--[\w-]+", TEXT))
    assert {option for option in options if option.startswith("--")} - told <= OF_TYPER


def test_every_rule_that_is_named_exists():
    assert set(re.findall(r"ESP\d{3}", TEXT)) <= {rule.code for rule in catalogue()}


@pytest.mark.parametrize("block", [text for kind, text in BLOCKS if kind == "yaml"])
def test_every_yaml_block_is_yaml(block):
    assert all(each is None or isinstance(each, list | dict) for each in yaml.safe_load_all(block))


def test_the_hooks_that_are_named_exist():
    hooks = {each["id"] for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}
    assert set(re.findall(r"id: ([\w-]+)", TEXT)) <= hooks
    assert hooks <= set(re.findall(r"`([\w-]+)`", TEXT))


def test_the_finding_that_is_shown_looks_like_that(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "\n" * 18
        + "for x, y in loader:\n    loss = criterion(model(x), y)\n\n    loss.backward()\n    optimizer.step()\n"
    )
    app = typer.Typer()
    register(app)
    shown = CliRunner().invoke(app, ["train.py"], env={"COLUMNS": "100"}).stdout
    block = next(text for _, text in BLOCKS if text.startswith("train.py:22"))
    assert [line.rstrip() for line in shown.split("\n\n", maxsplit=1)[0].splitlines()] == block.splitlines()
