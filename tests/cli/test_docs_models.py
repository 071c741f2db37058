"""What `docs/models.md` says of commands, settings and models is so."""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import astuple, fields
from pathlib import Path

import pytest
import typer
from command_line import build

from esper_agents.domain.permission_rule import RuleSource
from esper_agents.orchestration.model_settings import persons_models
from esper_agents.orchestration.settings import read_rules
from esper_agents.reasoning import model_client, model_reasoner, models, retry_budget
from esper_agents.reasoning.model_activity import ModelActivity
from esper_agents.reasoning.models import load_models
from esper_agents.tools.model_output import MOST_SHOWN

TEXT = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line[2:]) for line in re.findall(r"^\$ esper .*$", TEXT, re.MULTILINE)]
BLOCKS = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
SETTINGS = BLOCKS[0]


@pytest.fixture(scope="module")
def app():
    return typer.main.get_command(build())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_and_option_that_is_shown_exists(app, words):
    command, known = app, set()
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word, command)
        known |= {opt for parameter in command.params for opt in parameter.opts}
    assert {each for each in words if each.startswith("--")} <= known


def test_every_command_of_the_group_is_told_of(app):
    shown = {name for name, each in app.commands["models"].commands.items() if not each.hidden}
    assert shown == {words[2] for words in COMMANDS if words[1] == "models"}


def test_the_settings_are_read_and_name_models_that_there_are():
    assert all(read_rules(block, "config.toml", RuleSource.PERSON) == () for block in BLOCKS)
    table, known = tomllib.loads(SETTINGS)["models"], load_models()
    assert set(table) - {"fallback"} <= set(known.roles)
    assert set(table.values()) <= {*known.models, ""}


def test_every_member_of_the_other_settings_is_shown_and_read():
    (model,) = persons_models(BLOCKS[1], "config.toml").models
    assert model.of(load_models()).is_listed
    assert None not in {getattr(model, field.name) for field in fields(model)}
    activities = persons_models(BLOCKS[2], "config.toml").activities
    assert set(activities) == set(ModelActivity)
    assert None not in astuple(activities[ModelActivity.REASON])
    assert f"window of {models.UNKNOWN_WINDOW:,} tokens" in TEXT
    assert f"most {models.UNKNOWN_OUTPUT:,}." in TEXT


def test_every_variable_that_is_looked_for_is_told_of_with_its_default():
    names = {model_client.SERVER, model_client.TIMEOUT, model_client.SECOND_ADDRESS, model_client.SECOND_KEY}
    assert all(f"`{name}`" in TEXT for name in names)
    assert f"may say nothing; {model_client.server_of({}).silence_s:.0f} |" in TEXT
    assert f"{MOST_SHOWN:,} characters each" in TEXT


def test_the_number_of_retries_is_the_one_that_is_made():
    told = TEXT.replace("\n", " ")
    assert retry_budget.MOST_RETRIES == 4
    assert "made again, four times at most" in told
    assert retry_budget._MOST_WAIT_S == 120
    assert "over two minutes" in told
    assert f"less than {model_reasoner._LEAST_OUTPUT:,} tokens for its answer" in told
