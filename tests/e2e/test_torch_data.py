"""`esper torch data` as installed: what is printed, what is kept, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from places import Done

from esper_agents.torchlab import report as reports_module

pytest.importorskip("torch")

LOADERS = (Path(__file__).parents[1] / "torchlab/data_project/loaders.py").read_text(encoding="utf-8")
SCHEMA = json.loads(Path(reports_module.__file__).with_name("report.schema.json").read_text(encoding="utf-8"))
# Measurements queue: others may be running on the machine.
PATIENCE_S = 280


@pytest.fixture(scope="module")
def made(place):
    """Return a project with input pipelines."""
    return place({"loaders.py": LOADERS})


def run(place, *arguments):
    process = place.start("torch", *arguments)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    said = "".join(line for line in stderr.splitlines(keepends=True) if "waiting for the timing" not in line)
    return Done(process.returncode, stdout, said)


@pytest.mark.slow
def test_a_bottleneck_is_printed_with_its_line_and_fails_on_demand(made):
    options = ("--step", "loaders.py:make_fast_step", "--effort", "quick", "--fail-on", "warning", "--output", "kept")
    done = run(made, "data", "loaders.py:slow_data", *options)
    assert done.code == 3, done
    assert done.stdout.startswith("data      the input pipeline is the bottleneck: the step waits ")
    assert "time.sleep(0.005)" in done.stdout
    checked = run(made, "verify", "kept/report.json")
    assert checked.code == 0, checked
    assert "says       the input pipeline is the bottleneck" in checked.stdout


@pytest.mark.slow
def test_a_step_that_is_the_bottleneck_does_not_fail_and_its_report_is_json(made):
    done = run(
        made, "data", "loaders.py:fast_data", "--step", "loaders.py:make_slow_step", "--quick", "--fail", "--json"
    )
    assert done.code == 0, done
    assert done.json["result"]["status"] == "step"
    assert list(Draft202012Validator(SCHEMA).iter_errors(done.json)) == []


def test_a_dataset_that_raises_is_not_measured_and_its_line_is_printed(made):
    done = run(made, "data", "loaders.py:broken", "--effort", "quick")
    assert done.code == 4, done
    line = next(number for number, text in enumerate(LOADERS.splitlines(), 1) if "is damaged" in text)
    assert f"where      loaders.py:{line}" in done.stdout
    assert "sample 0 is damaged" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("loaders.py:slow_data", "--step", "none.py:step"), "no such file: 'none.py'"),
        (("loaders.py:settings",), "the target gives a dict, which is no input pipeline"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_remedy(made, arguments, problem):
    said, remedy = run(made, "data", *arguments).problem(2)
    assert said == problem
    assert remedy
