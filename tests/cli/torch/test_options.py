"""The options that every measurement shares."""

from __future__ import annotations

import shlex

import pytest
import typer
from command_line import build

from esper_agents.api import measurements
from esper_agents.cli.torch.options import MeasurementOptions, Target, measuring
from esper_agents.domain.quantities import size_in_bytes
from esper_agents.errors import UsageError


@pytest.fixture
def parse():
    """Return what parses a command line of a command with the shared options and one of its own."""
    taken = []
    app = typer.Typer(callback=lambda: None)

    @app.command()
    @measuring
    def look(target: Target, *, asked: MeasurementOptions, steps: int = 3) -> None:
        """Look at a target."""
        taken.append((target, asked, steps))

    def parse(line):
        typer.main.get_command(app)(["look", *shlex.split(line)], standalone_mode=False)
        return taken[-1]

    return parse


def test_shared_options_and_a_commands_own_are_told_apart(parse):
    target, asked, steps = parse('m.py:f --input "randn(2,3)" --input x=4 --steps 7 --train --device cuda --json')
    assert (target, steps) == ("m.py:f", 7)
    assert (asked.input, asked.train, asked.device, asked.as_json) == (["randn(2,3)", "x=4"], True, "cuda", True)


def test_the_lab_is_run_as_the_options_say(parse):
    _, asked, _ = parse("m.py:f --threads 4 --max-memory 512M --timeout 9 --python /usr/bin/python3 --no-sandbox")
    settings = asked.settings()
    assert (settings.threads, settings.memory_bytes, settings.timeout_s) == (4, 512 << 20, 9.0)
    assert (settings.python, settings.is_unconfined) == ("/usr/bin/python3", True)


def test_unless_a_person_says_otherwise_code_runs_confined_on_our_interpreter(parse):
    settings = parse("m.py:f")[1].settings()
    assert (settings.python, settings.is_unconfined, settings.threads) == (None, False, 1)


def test_inputs_come_from_one_place(parse):
    _, asked, _ = parse("m.py:f --input 3 --capture train.py")
    with pytest.raises(UsageError, match="--input and --capture are mutually exclusive"):
        asked.refuse_two_inputs()
    parse("m.py:f --inputs m.py:make")[1].refuse_two_inputs()


@pytest.mark.parametrize(
    ("size", "counted"), [("16G", 16 << 30), ("0.5 GiB", 512 << 20), ("500MB", 500 << 20), ("4096", 4096), ("1k", 1024)]
)
def test_a_size_is_written_as_people_write_it(size, counted):
    assert size_in_bytes(size) == counted


@pytest.mark.parametrize("size", ["", "0", "-1", "16X", "G", "1e9", "9" * 400])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(UsageError, match="invalid size"):
        size_in_bytes(size)


@pytest.mark.parametrize("line", ["", "m.py:f --threads 0", "m.py:f --timeout 0", "m.py:f --seed -1"])
def test_what_cannot_be_meant_is_refused(parse, line):
    with pytest.raises(typer.TyperException):
        parse(line)


@pytest.mark.parametrize("measurement", measurements(), ids=lambda measurement: measurement.kind)
def test_the_option_of_the_backward_pass_is_one_of_the_measurements_that_use_it(measurement):
    command = typer.main.get_command(build()).get_command(None, "torch").get_command(None, measurement.command)
    has_train = any("--train" in param.opts for param in command.params)
    assert has_train == any(each.name == "train" for each in measurement.option_list())
