"""`esper torch` as installed: real targets in real workers, what is shown, what is kept, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from places import Done, Place

from esper_agents.torchlab import report as reports_module
from esper_agents.torchlab.timing_turn import timing_turn

pytest.importorskip("torch")

SCHEMA = json.loads(Path(reports_module.__file__).with_name("report.schema.json").read_text(encoding="utf-8"))

# Measurements queue: others may be running on the machine.
PATIENCE_S = 280

MODEL = """
import sys

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x)
        if y.abs().sum() > 0:
            y = y * 2
        return y


def make_net():
    return Net()


def scale(x):
    return torch.log(x)


def shout(x):
    print("so far [bold]good[/bold] \\x1b[31m", flush=True)
    raise ValueError("no [red]good[/red] \\x1b[31m")
"""
TRAIN = """
import torch
from model import make_net, scale

net = make_net()
for number in range(3):
    net(torch.randn(4, 8))
    scale(torch.full((4,), 1.0 - number))
print("trained")
"""
# Starts a child and never returns.
STUBBORN = """
import subprocess
import sys
import time


def stay(x):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(MARK)"])
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def made(place):
    """Return a project with targets."""
    return place({"model.py": MODEL, "train.py": TRAIN, "sub/.keep": ""})


def run(place, *arguments, **options):
    """Run a command that measures to its end; what it says while it waits for another timing is left out."""
    process = place.start("torch", *arguments, **options)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    said = "".join(line for line in stderr.splitlines(keepends=True) if "waiting for the timing" not in line)
    return Done(process.returncode, stdout, said)


def reports(place):
    """Return every report that was kept where nothing else was said."""
    return sorted(place.home.glob("projects/*/torch/*/report.json"))


def processes(mark):
    """Return the processes whose command line holds a text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            held = path.read_bytes()
        except OSError:
            continue
        if mark.encode() in held:
            found.append(path.parent.name)
    return found


def until(holds):
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_diagnosis_is_shown_and_kept_and_can_be_rechecked(made, tmp_path):
    out = tmp_path / "out"
    asked = ("explain", "../model.py:make_net", "--input", "randn(4,8)", "--fail-on", "break")
    done = run(Place(made.root / "sub", made.home), *asked, "--output", out)
    assert done.code == 3, done
    assert "model.py:14 in forward" in done.stdout
    assert f"kept in    {out}" in done.stdout
    kept = json.loads((out / "report.json").read_text())
    assert (kept["kind"], kept["result"]["status"], kept["target"]["file"]) == ("explain", "breaks", "model.py")
    assert kept["command"].startswith("esper torch explain ../model.py:make_net --input 'randn(4,8)'")
    assert kept["sandbox"]["sandbox"] in {"bubblewrap", "landlock"}
    assert reports(made) == []

    assert "the same, bit for bit" in made.esper("torch", "verify", out / "report.json", code=0).stdout
    kept["result"]["headline"] = "one graph, and nothing breaks it"
    (out / "report.json").write_text(json.dumps(kept))
    problem, _ = made.esper("torch", "verify", out / "report.json").problem(7)
    assert problem.startswith("the report's conclusions do not follow from its measurements: headline")


def test_a_timing_says_for_whom_it_waits_or_fails_at_once(made, monkeypatch, tmp_path):
    monkeypatch.setenv("ESPER_HOME", str(made.home))
    kept = ("--output", tmp_path)
    words = ("torch", "profile", "model.py:scale", "--input", "rand(4)", "--effort", "quick", *kept, "--json")
    with timing_turn(print, timeout_s=PATIENCE_S):
        problem, remedy = made.esper(*words[:-1], "--no-wait").problem(75)
        assert problem == f"another timing is running (process {os.getpid()})"
        assert "--no-wait" in remedy
        # What reads no clock does not wait.
        assert made.esper("torch", "nan", "model.py:scale", "--input", "rand(4)", *kept, code=0)
        process = made.start(*words)
        assert process.stderr.readline() == (
            f"esper: waiting for the timing of process {os.getpid()}; next in the queue\n"
        )
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["kind"] == "profile"


def test_a_script_gives_the_inputs_and_json_is_all_that_is_printed(made):
    process = made.start("torch", "nan", "model.py:scale", "--capture", "train.py", "--fail-on", "nonfinite", "--json")
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3, stderr
    printed = json.loads(stdout)
    Draft202012Validator(SCHEMA).validate(printed)
    assert printed["captured"]["source"] == "train.py"
    assert printed["captured"]["calls"] == 3
    assert printed["target"]["captured"] == {"file": "calls.espb", "source": "train.py"}
    # The second of the recorded calls is the first with a logarithm of zero.
    assert printed["result"]["first"]["line"] == 24
    (kept,) = reports(made)
    assert json.loads(kept.read_text()) == printed
    assert sorted(path.name for path in kept.parent.iterdir()) == ["calls.espb", "report.json"]
    assert "artifact   calls.espb is what it was" in made.esper("torch", "verify", kept, code=0).stdout
    with (kept.parent / "calls.espb").open("ab") as file:
        file.write(b"more")
    problem, _ = made.esper("torch", "verify", kept).problem(7)
    assert problem == "'calls.espb' does not match its digest in the report"


@pytest.mark.slow
def test_a_target_that_raises_is_an_outcome_with_its_line_and_what_it_printed(made):
    before = reports(made)
    done = run(made, "explain", "model.py:shout", "--input", "rand(4)")
    problem, remedy = done.problem(4)
    assert problem == "model.py:shout raised ValueError: no [red]good[/red] \\x1b[31m"
    assert remedy == "look at model.py:29"
    lines = done.stdout.splitlines()
    assert lines[:2] == ["outcome    raised", "where      model.py:29"]
    assert lines[2] == "printed    | so far [bold]good[/bold] \\x1b[31m"
    assert reports(made) == before


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_no_process_and_no_report(place, number):
    mark = f"1{os.getpid()}{number:d}.0"
    made = place({"stay.py": STUBBORN.replace("MARK", mark)})
    process = made.start("torch", "nan", "stay.py:stay", "--input", "3")
    until(lambda: processes(mark) or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.splitlines()[-2:] == ["esper: interrupted; no report was kept", "  fix: run it again"]
    until(lambda: not processes(mark))
    assert not list(made.home.glob("projects/*/torch/*"))


@pytest.mark.slow
def test_a_target_that_hangs_is_killed_with_all_that_it_started(place):
    mark = f"2{os.getpid()}.0"
    made = place({"stay.py": STUBBORN.replace("MARK", mark)})
    done = run(made, "nan", "stay.py:stay", "--input", "3", "--timeout", "5", "--json")
    assert done.code == 4, done
    assert done.json["error"]["outcome"] == "hang"
    until(lambda: not processes(mark))


@pytest.mark.slow
def test_a_device_that_is_not_there_is_bad_input(made):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device: what is said where there is none was NOT tested")
    done = run(made, "explain", "model.py:scale", "--input", "rand(4)", "--device", "cuda")
    problem, remedy = done.problem(2)
    assert problem.startswith("device 'cuda' is not available: torch ")
    assert "--device" in remedy


@pytest.mark.parametrize(
    ("options", "problem", "remedy"),
    [
        (("none.py:f",), "no such file or folder: 'none.py'", "correct the path"),
        (("model.py",), "'model.py' names no target", "write FILE.py:FUNCTION or package.module:Class.method"),
        (("model.py:scale", "--inputs", "none.py:f"), "no such file: 'none.py'", "correct the path"),
        (
            ("model.py:scale", "--input", "3", "--capture", "train.py"),
            "--input and --capture are mutually exclusive",
            "keep one of them",
        ),
        (
            ("model.py:scale", "--input", "3", "--output", "model.py"),
            None,
            "name another directory with --output",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(made, options, problem, remedy):
    said = made.esper("torch", "explain", *options).problem(2)
    assert said[1] == remedy
    if problem is None:
        assert said[0].startswith("no report can be kept in ")
    else:
        assert said[0] == problem
