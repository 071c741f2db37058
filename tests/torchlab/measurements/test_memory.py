"""Measurements of memory as a whole: the kind of trouble, the limit, what to change, and how it looks."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from printed_reports import printed

from esper_agents.errors import IntegrityError, UsageError
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements.memory import MEASUREMENT, MemoryOptions, run
from esper_agents.torchlab.recheck import recheck
from esper_agents.torchlab.report import MeasurementReport
from esper_agents.torchlab.target import TargetSpec

PROJECT = Path(__file__).parents[1] / "memory_project"
MIB = 1 << 20
SPLIT = {
    "parameters": 10 * MIB,
    "buffers": 0,
    "gradients": 10 * MIB,
    "optimizer_state": 20 * MIB,
    "activations": 50 * MIB,
    "inputs": MIB,
    "other": 9 * MIB,
}
PHASES = [
    *((1, "forward", 60), (1, "backward", 70), (1, "optimizer", 50)),
    *((2, "forward", 90), (2, "backward", 100), (2, "optimizer", 60)),
]
PEAK = {
    "peak_bytes": 100 * MIB,
    "allocated_bytes": 89 * MIB,
    "before_bytes": 11 * MIB,
    "phase": "backward",
    "step": 2,
    "reached_by": {},
    "split_bytes": SPLIT,
    "largest": [],
    "phases": [{"step": step, "name": name, "peak_bytes": mib * MIB, "end_bytes": 0} for step, name, mib in PHASES],
    "timeline": [],
}
LEVEL = {
    "steps": 8,
    "live_bytes": [0] * 8,
    "profiler_bytes": [0] * 8,
    "collected_bytes": [0] * 8,
    "graph_nodes": [0] * 8,
    "judged_from_step": 3,
    "is_growing": False,
    "is_leak": False,
    "bytes_per_step": 0,
    "graph_nodes_per_step": 0,
    "holders": [],
    "made_by": [],
}
HOLDER = {
    "kind": "attribute",
    "name": "Trainer.losses",
    "file": "train.py",
    "kept_line": 12,
    "source": "self.losses.append(loss)",
    "bytes": 7 * MIB,
    "tensors": 7,
    "shape": [],
    "dtype": "torch.float32",
    "graph_nodes": 3,
    "graph_of": "MeanBackward0",
}
REPEATED = {
    "operation": "aten::conv2d",
    "category": "activations",
    "bytes": 40 * MIB,
    "file": "train.py",
    "line": 30,
    "module": "net.head",
}
ESTIMATE = {**PEAK, "built_with_memory_because": None, "assumed": [], "left_out": {}, "trains": True}
LEAK = {**LEVEL, "is_growing": True, "is_leak": True, "bytes_per_step": MIB, "holders": [HOLDER]}


def explained(result):
    """Return a result with its conclusions, as it stands in a report."""
    return json.loads(json.dumps(MEASUREMENT.conclusions({"result": result})))


def measured(**more):
    base = {"device": "cpu", "trains": True, "missing": [], "peak": PEAK, "leak": LEVEL, "verify": "esper torch memory"}
    return explained({**base, **more})


@pytest.mark.parametrize(
    ("more", "kind", "because"),
    [
        ({}, "none", "memory is level after 8 steps"),
        (
            {"peak": {**PEAK, "largest": [{**REPEATED, "count": 40}]}},
            "none",
            "memory is level after 8 steps, but 40 results of train.py:30 net.head are alive at once within one step",
        ),
        ({"leak": LEAK}, "leak", "each step leaves 1 MiB behind after 8 steps, held by Trainer.losses"),
        (
            {"leak": {**LEAK, "holders": [{**HOLDER, "kind": "gradient", "name": "Net.weight.grad"}]}},
            "backward accumulation",
            "held by Net.weight.grad",
        ),
        (
            {"leak": {**LEAK, "is_leak": False, "holders": [{**HOLDER, "bound": 500}]}},
            "none",
            "Trainer.losses still fills, and ends at 500 entries",
        ),
        ({"leak": {**LEVEL, "collected_bytes": [9 * MIB] * 8}}, "leak", "9 MiB of each step hang in reference cycles"),
        ({"limit": {"limit_bytes": 50 * MIB}}, "model too large", "the forward of step 1 reaches 60 MiB"),
        ({"limit": {"limit_bytes": 65 * MIB}}, "backward accumulation", "the backward of step 1 reaches 70 MiB"),
        ({"limit": {"limit_bytes": 80 * MIB}}, "model too large", "the forward of step 2 reaches 90 MiB"),
        ({"limit": {"limit_bytes": 5 * MIB}}, "model too large", "building the model reaches 11 MiB"),
        (
            {"out_of_memory": {"phase": "forward", "step": 1, "message": "no"}},
            "model too large",
            "memory ran out in the forward of step 1",
        ),
        (
            {"out_of_memory": {"phase": "backward", "step": 1, "message": "no"}},
            "backward accumulation",
            "memory ran out in the backward of step 1",
        ),
        ({"out_of_memory": {"phase": "later", "step": 40, "message": "no"}}, "leak", "memory ran out in step 40"),
        (
            {
                "out_of_memory": {"phase": "forward", "step": 1, "message": "no", "wanted_bytes": 100 * MIB},
                "allocator": {"reserved_peak_bytes": 900 * MIB, "allocated_peak_bytes": 500 * MIB},
            },
            "fragmentation",
            "100 MiB were refused while 400 MiB were reserved and unused",
        ),
        (
            {
                "allocator": {
                    "reserved_peak_bytes": 900 * MIB,
                    "allocated_peak_bytes": 500 * MIB,
                    "split_unused_peak_bytes": 200 * MIB,
                }
            },
            "fragmentation",
            "44 % of the 900 MiB that are reserved are never used",
        ),
    ],
)
def test_the_kind_of_trouble_follows_from_when_and_how_memory_is_short(more, kind, because):
    found = measured(**more)
    assert found["issue"]["type"] == kind
    assert because in found["issue"]["because"]


def test_what_is_concluded_can_be_worked_out_again_from_the_report_alone():
    found = measured(leak=LEAK, limit={"limit_bytes": 200 * MIB}, estimate=ESTIMATE)
    assert explained(json.loads(json.dumps(found))) == found


def test_parts_of_equal_size_have_an_order_that_a_stored_report_keeps():
    split = {**SPLIT, "gradients": 50 * MIB, "activations": 50 * MIB}
    found = measured(peak={**PEAK, "split_bytes": split})
    stored = MeasurementReport("memory", {"result": found}).text()
    assert MEASUREMENT.conclusions(json.loads(stored)) == found


def test_a_limit_that_is_kept_tells_how_long_a_leak_keeps_it():
    limit = measured(leak=LEAK, limit={"limit_bytes": 200 * MIB})["limit"]
    assert (limit["is_exceeded"], limit["steps_until"]) == (False, 100)


def test_a_limit_is_held_against_the_estimate_where_nothing_was_run():
    found = explained({"missing": [], "estimate": ESTIMATE, "limit": {"limit_bytes": 65 * MIB}, "verify": "x"})
    assert found["limit"]["by"] == "estimate"
    assert (found["limit"]["phase"], found["limit"]["step"]) == ("backward", 1)
    assert "would reach 70 MiB" in found["issue"]["because"]
    assert found["headline"].startswith("estimated peak 100 MiB in the backward of step 2: activations 50 %")


@pytest.mark.parametrize(
    ("holder", "remedy"),
    [
        (HOLDER, "train.py:12: keep `.item()`"),
        ({**HOLDER, "kind": "gradient"}, "torch.autograd.grad"),
        ({**HOLDER, "kind": "cache"}, "do not cache by tensors"),
        ({**HOLDER, "kind": "function"}, "ctx.save_for_backward"),
        ({name: HOLDER[name] for name in HOLDER if name != "graph_of"}, "let go of old entries"),
    ],
)
def test_a_leak_is_mended_where_it_is_held(holder, remedy):
    assert remedy in measured(leak={**LEAK, "holders": [holder]})["remedies"][0]


def test_what_is_too_large_is_made_smaller_beginning_with_what_saves_most():
    found = measured(limit={"limit_bytes": 50 * MIB})["remedies"]
    assert "checkpoint" in found[0]
    assert all("MiB" in each for each in found)


def test_evaluation_that_keeps_a_graph_is_told_what_no_grad_saves():
    estimate = {**ESTIMATE, "trains": False, "without_gradients_bytes": 30 * MIB}
    found = measured(trains=False, estimate=estimate, limit={"limit_bytes": 50 * MIB})
    assert found["remedies"][0].startswith("call it under torch.no_grad(): saves 70 MiB")


def test_every_trouble_says_how_to_keep_it_from_coming_back():
    assert measured()["prevention"]
    assert measured()["remedies"] == []


def test_a_report_of_an_earlier_version_holds_although_an_option_has_another_name(tmp_path):
    result = measured(estimate=ESTIMATE, limit={"limit_bytes": 50 * MIB})
    assert "--device-memory" in result["prevention"]
    old = {**result, "prevention": result["prevention"].replace("--device-memory", "--limit")}
    body = {"started_at": "2026-11-21T10:00:00.000Z", "artifacts": []}
    assert recheck(MeasurementReport("memory", {**body, "result": old}), tmp_path).kind == "memory"
    other = {**result, "prevention": "buy a larger one"}
    with pytest.raises(IntegrityError, match="prevention"):
        recheck(MeasurementReport("memory", {**body, "result": other}), tmp_path)


def test_the_screen_shows_the_trouble_its_holder_and_the_command_and_takes_no_markup():
    evil = {**HOLDER, "name": "[red]x[/red]\x1b[31m", "kind": "attribute", "entries": 7, "container": "list"}
    report = MeasurementReport("memory", {"result": measured(leak={**LEAK, "holders": [evil]})})
    text = printed(report)
    assert text.startswith("leak")
    assert "[red]x[/red]\\x1b[31m" in text
    assert "\x1b" not in text
    assert "train.py:12 | self.losses.append(loss)" in text
    assert "esper torch memory" in text


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"optimizer": "adamx"}, "no optimizer named 'adamx'"), ({"steps": 3}, "3 steps are too few to detect growth")],
)
def test_what_cannot_be_asked_is_refused_before_anything_runs(options, problem):
    with pytest.raises(UsageError, match=problem):
        run(Lab(PROJECT), TargetSpec("shapes.py:perceptron"), MemoryOptions(**options), None)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Lab(PROJECT, keep=tmp_path_factory.mktemp("kept")) as opened:
        yield opened


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_a_target_is_worked_out_run_and_watched_and_a_plot_is_left_behind(lab):
    report = run(lab, TargetSpec("leaky.py:list_of_losses"), MemoryOptions(limit_bytes=MIB), None)
    found = report.result
    assert found["issue"]["type"] == "leak"
    assert found["estimate_off"] == 0
    assert not found["limit"]["is_exceeded"]
    assert found["verify"] == f"esper torch memory leaky.py:list_of_losses --steps 8 --device-memory {MIB}"
    (plot,) = [each for each in report.made if each.media_type == "image/svg+xml"]
    assert "Left after each step" in plot.path.read_text(encoding="utf-8")
    assert [each["name"] for each in report.body["artifacts"]] == ["memory.svg"]
    assert explained(found) == found
    assert json.loads(report.text())["kind"] == "memory"


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_what_exceeds_the_limit_is_not_run(lab):
    inputs = ("randn(4,262144)",)
    options = MemoryOptions(train=True, limit_bytes=80 << 30)
    found = run(lab, TargetSpec("shapes.py:huge", inputs), options, None).result
    assert found["issue"]["type"] == "model too large"
    assert found["issue"]["phase"] == "building"
    assert "peak" not in found
    assert "leak" not in found
    (missing,) = found["missing"]
    assert missing["what"] == "a run"
    assert missing["why"].endswith("more than the limit of 80 GiB")


@pytest.mark.parametrize("less", [{"count": 7}, {"count": 40, "bytes": MIB}, {"count": 40, "category": "parameters"}])
def test_few_results_of_an_operation_or_little_memory_are_no_loop_that_keeps_them(less):
    result = measured(peak={**PEAK, "largest": [{**REPEATED, **less}]})
    assert (result["issue"]["because"], result["issue"].get("repeats", 0)) == ("memory is level after 8 steps", 0)
