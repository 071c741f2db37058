"""What `docs/observability.md` says of the command and of the spans is so."""

from __future__ import annotations

import re
from pathlib import Path

import typer
from command_line import build

import esper_agents.observing
from esper_agents.domain.ledger import RowKind
from esper_agents.observing.event_names import OF_FRAME, OF_SESSION

TEXT = (Path(__file__).parents[2] / "docs/observability.md").read_text(encoding="utf-8")
SOURCE = "".join(path.read_text() for path in Path(esper_agents.observing.__path__[0]).glob("*.py"))
NAME = r"esper\.[a-z_.0-9]*[a-z0-9]"
EVENTS = {f"esper.{kind.replace('-', '_')}" for kind in RowKind}


def test_every_option_that_is_shown_exists():
    command = typer.main.get_command(build()).commands["trace"]
    options = {opt for parameter in command.params for opt in parameter.opts}
    shown = re.findall(r"^esper trace.*?(?=  #|$)", TEXT, re.MULTILINE)
    assert len(shown) == 3
    assert set(re.findall(r"--[a-z]+", " ".join(shown) + " `--content`")) <= options


def test_every_attribute_of_ours_is_told_of_and_no_other():
    told = set(re.findall(rf"`({NAME})`", TEXT)) - EVENTS
    assert told == set(re.findall(rf'"({NAME})"', SOURCE))


def test_every_event_is_told_of_and_no_other():
    told = set(re.findall(rf"`({NAME})`", TEXT)) & EVENTS
    assert told == {f"esper.{kind.replace('-', '_')}" for kind in OF_SESSION | OF_FRAME}


def test_every_name_of_the_conventions_that_is_told_of_is_used():
    assert set(re.findall(r"`(gen_ai\.[a-z_.]+)`", TEXT)) <= set(re.findall(r'"(gen_ai\.[a-z_.]+)"', SOURCE))
