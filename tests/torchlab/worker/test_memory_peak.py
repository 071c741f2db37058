"""Peak memory, run and not run: hand counts, the split, phases, places, and what is assumed."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

SOURCE = (Path(__file__).parents[1] / "memory_project" / "shapes.py").read_text(encoding="utf-8").splitlines()
ROWS = "randn(8,64)"
# Weights and biases of 64 to 256 to 32, in bytes.
PARAMETERS = 4 * (64 * 256 + 256 + 256 * 32 + 32)
SAME = [
    ("perceptron", (ROWS,)),
    ("residual", ("randn(4,3,16,16)",)),
    ("recurrent", ("randn(8,12,16)",)),
    ("gathering", ("randn(64,32)",)),
    ("with_loss", ("randn(64,32)",)),
    ("step_that_reads_numbers", ()),
    ("scaled_step", ()),
]


@pytest.fixture(scope="module")
def run(ask):
    @functools.cache
    def measure(name, *inputs, **request):
        return ask("memory", f"shapes.py:{name}", *inputs, **{"train": True, "steps": 0, **request})

    return measure


@pytest.fixture(scope="module")
def estimate(ask):
    def work_out(name, *inputs, **request):
        return ask("memory_estimate", f"shapes.py:{name}", *inputs, **{"train": True, **request})

    return work_out


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("name", "inputs", "train"),
    [*((*each, True) for each in SAME), *((*each, False) for each in SAME[:4])],
)
def test_what_is_worked_out_without_running_is_what_a_run_allocates(run, estimate, name, inputs, train):
    measured = run(name, *inputs, train=train)["peak"]
    worked_out = estimate(name, *inputs, train=train)
    assert abs(worked_out["allocated_bytes"] / measured["allocated_bytes"] - 1) < 0.01
    assert worked_out["before_bytes"] == measured["before_bytes"]
    assert worked_out["left_out"] == {}
    assert [worked_out["phase"], worked_out["step"]] == [measured["phase"], measured["step"]]


def test_the_parts_of_a_training_step_are_those_by_hand(run):
    split = run("perceptron", ROWS)["peak"]["split_bytes"]
    assert split["parameters"] == split["gradients"] == PARAMETERS
    # Two moments as large as the parameters, and a count of four bytes for each of four tensors.
    assert split["optimizer_state"] == 2 * PARAMETERS + 4 * 4
    assert split["inputs"] == 8 * 64 * 4


@pytest.mark.parametrize(("optimizer", "state"), [("sgd", 0), ("adam", 2 * PARAMETERS + 16), ("none", 0)])
def test_the_state_is_the_optimizers(run, optimizer, state):
    assert run("perceptron", ROWS, optimizer=optimizer)["peak"]["split_bytes"]["optimizer_state"] == state


def test_a_call_without_training_has_activations_and_no_gradients(run):
    measured = run("perceptron", ROWS, train=False)
    assert not measured["trains"]
    assert measured["peak"]["split_bytes"]["gradients"] == 0
    # The hidden layer before and after its activation; the former is gone when the output is made.
    assert measured["peak"]["split_bytes"]["activations"] == 2 * 8 * 256 * 4


def test_the_parts_add_up_to_the_peak(run):
    peak = run("residual", "randn(4,3,16,16)")["peak"]
    assert sum(peak["split_bytes"].values()) == peak["peak_bytes"] == peak["before_bytes"] + peak["allocated_bytes"]
    assert max(each["peak_bytes"] for each in peak["phases"]) == peak["peak_bytes"]


def test_the_phases_of_two_steps_come_in_their_order(run):
    phases = [(each["step"], each["name"]) for each in run("perceptron", ROWS)["peak"]["phases"]]
    assert phases == [(step, name) for step in (1, 2) for name in ("forward", "backward", "optimizer")]


def test_the_course_reaches_the_peak_and_goes_forward_in_time(run):
    measured = run("residual", "randn(4,3,16,16)")
    points = measured["peak"]["timeline"]
    assert 2 < len(points) <= 2_000
    assert max(sum(sizes) for _, *sizes in points) == measured["peak"]["peak_bytes"]
    assert [at for at, *_ in points] == sorted(at for at, *_ in points)
    assert all(len(point) == 1 + len(measured["categories"]) for point in points)


def test_the_largest_blocks_name_the_line_and_the_module(run, estimate):
    line = 1 + next(n for n, text in enumerate(SOURCE) if "self.norm(self.second(hidden))" in text)
    for found in (run("residual", "randn(4,3,16,16)")["peak"], estimate("residual", "randn(4,3,16,16)")):
        modules = {(each.get("file"), each.get("line"), each.get("module")) for each in found["largest"]}
        assert ("shapes.py", line, "Residual.second") in modules


def test_a_model_that_fits_nowhere_is_worked_out_all_the_same(estimate):
    found = estimate("huge", "randn(4,262144)")
    weights = 2 * ((1 << 18) * (1 << 18) + (1 << 18)) * 4
    assert found["built_with_memory_because"] == ""
    assert found["split_bytes"]["parameters"] == weights
    # Weights, gradients and two moments; one of them is half a terabyte.
    assert found["peak_bytes"] > 4 * weights > 1 << 40
    assert "too much of the memory that is free" in found["left_out"]["aten.mm.default"]


def test_what_numbers_decide_is_assumed_and_told(estimate):
    assumed = {each["what"] for each in estimate("step_that_reads_numbers")["assumed"]}
    assert assumed == {"a number that is read from a tensor is False", "a number that is read from a tensor is 1.0"}
    (mask,) = estimate("half_of_it", "randn(1000)", train=False)["assumed"]
    assert mask["what"] == "a mask keeps everything"
    assert mask["place"].startswith("shapes.py:")


def test_a_call_that_needs_no_gradients_is_told_what_it_would_save(estimate):
    found = estimate("deep", ROWS, train=False)
    # The graph keeps what the first three of four activations gave; without it the next layer replaces them.
    assert found["without_gradients_bytes"] == found["peak_bytes"] - 3 * 8 * 64 * 4
    assert "without_gradients_bytes" not in estimate("deep", ROWS, train=True)


@pytest.mark.parametrize(
    ("name", "inputs", "phase"),
    [
        ("out_of_nothing", ("randn(4)",), "forward"),
        ("out_of_nothing_in_backward", ("randn(2,16)",), "backward"),
        ("out_of_nothing_later", (), "later"),
    ],
)
def test_running_out_of_memory_is_told_with_its_phase_and_line(run, name, inputs, phase):
    failed = run(name, *inputs, steps=6)["out_of_memory"]
    assert failed["phase"] == phase
    assert failed["wanted_bytes"] == 4 << 59
    assert "torch.empty(1 << 59)" in SOURCE[failed["line"] - 1]


@pytest.mark.parametrize(("name", "wanted_bytes"), [("out_of_cuda", 2 << 30), ("out_of_what_the_driver_has", None)])
def test_running_out_of_memory_is_told_in_the_words_of_cuda_too(run, name, wanted_bytes):
    failed = run(name, "randn(4)")["out_of_memory"]
    assert (failed["phase"], failed.get("wanted_bytes")) == ("forward", wanted_bytes)


def test_what_cannot_go_backward_is_told_and_not_made_up(run):
    measured = run("without_gradients", "randn(4,4)")
    assert not measured["trains"]
    assert measured["missing"] == [{"what": "backward", "why": "nothing that the target returns requires a gradient"}]


def test_a_compiled_target_is_measured_without_lines(run):
    measured = run("compiled", ROWS, train=False)
    assert [each["what"] for each in measured["missing"]] == ["lines and modules of the peak"]
    assert measured["peak"]["split_bytes"]["parameters"] == PARAMETERS


@pytest.mark.slow
def test_an_estimate_is_the_same_each_time(estimate):
    first, second = (json.dumps(estimate("residual", "randn(4,3,16,16)"), sort_keys=True) for _ in range(2))
    assert first == second
