"""What the installed command loads: heavy libraries only where a command cannot do without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from places import PATIENCE_S, environment

BENCHMARK = Path(__file__).parents[2] / "benchmarks/startup.py"
HEAVY = {"torch", "langgraph", "langchain_core", "anthropic"}
# A first look at the help must not wait for these either.
WEIGHTY = {"sqlalchemy", "alembic", "pydantic", "jinja2", "yaml", "rich.console", "psutil", "rfc8785"}


def loaded(place, *command):
    """Return every module that a run of the command loads, with the packages around it."""
    done = place.esper(*command, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.code in {0, 3}, done.stderr
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "esper_agents.cli" in names
    return names | {name.partition(".")[0] for name in names}


def test_help_loads_nothing_heavy(known):
    assert not loaded(known, "--help") & (HEAVY | WEIGHTY | {"typer", "asyncio", "dataclasses"})


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "command",
    [("sessions", "list"), ("certificates", "list"), ("memory", "show"), ("agents", "list"), ("review", "train.py")],
    ids=" ".join,
)
def test_what_only_reads_loads_neither_torch_nor_the_graph_nor_a_model_client(known, command):
    assert not loaded(known, *command) & HEAVY


@pytest.mark.parametrize(
    ("command", "most"), [(("certificates", "list"), 78), (("sessions", "list"), 76), (("why",), 90)], ids=str
)
def test_a_command_that_reads_loads_few_modules_of_the_program(known, command, most):
    own = {name for name in loaded(known, *command) if name.startswith("esper_agents")}
    assert len(own) <= most, sorted(own)


@pytest.mark.parametrize(
    "command",
    [
        *(("certificates", "list"), ("certificates", "show"), ("sessions", "list"), ("sessions", "show"), ("why",)),
        ("submit", "review this training code", "sound.py"),
    ],
    ids=" ".join,
)
def test_neither_common_reads_nor_a_session_load_sqlalchemy(known, command):
    assert not loaded(known, *command) & {"sqlalchemy", "alembic"}


def test_a_command_does_not_collect_garbage_when_it_ends():
    # Registered first, so that it runs last.
    seen = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0, gc.get_threshold()[0]))"
    program = f"{seen}; import sys; sys.argv = ['esper', '--version']; from esper_agents.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.splitlines()[-1] == "True 400000"


def test_a_review_needs_no_database(known):
    assert not loaded(known, "review", "train.py") & {"sqlalchemy", "alembic"}


def test_a_submission_loads_no_torch_no_model_client_and_no_client_of_a_server(known):
    foreign = {"torch", "anthropic", "langgraph_sdk.client", "httpx", "websockets", "langsmith.types.sandbox_response"}
    assert not loaded(known, "submit", "review this training code", "sound.py") & foreign


@pytest.mark.slow
def test_the_benchmark_measures_every_command(tmp_path):
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--runs", "1", "--json"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    measured = json.loads(done.stdout)
    assert {each["command"] for each in measured["commands"]} == {
        "import typer",
        "esper --help",
        "esper sessions list",
        "esper certificates list",
        "esper why",
        "esper review train.py",
        "esper submit",
    }
    for each in measured["commands"]:
        assert 0 < each["cpu_best_ms"] <= each["cpu_median_ms"]
        assert 0 < each["wall_best_ms"] <= each["wall_median_ms"]
