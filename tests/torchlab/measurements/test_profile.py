"""Profiles of targets whose operations, lines and bottlenecks are known by how they were made."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from printed_reports import printed

from esper_agents.domain.codec import JsonObject
from esper_agents.errors import UsageError
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements.profile import MEASUREMENT, profile
from esper_agents.torchlab.report import MeasurementReport
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError

pytest.importorskip("torch")

PROJECT = Path(__file__).parents[1] / "profile_project"
LINES = {
    found[1]: number
    for file in ("network.py", "steps.py")
    for number, line in enumerate((PROJECT / file).read_text(encoding="utf-8").splitlines(), 1)
    if (found := re.search(r"# line: (\w+)", line))
}
ROWS, IN, OUT = 6, 16, 32
# A block is two products, and each product's gradient is two more; no one asks for the gradient of the input.
FORWARD_FLOPS = 2 * 2 * (2 * ROWS * IN * OUT)
BACKWARD_FLOPS = 2 * FORWARD_FLOPS - 2 * ROWS * IN * OUT


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with Lab(PROJECT, keep=tmp_path_factory.mktemp("kept")) as started:
        yield started


def profile_of(lab: Lab, name: str, *inputs: str, train: bool = False) -> MeasurementReport:
    return profile(lab, TargetSpec(name, inputs), train=train, seconds=0.05, look=False)


def measured_of(lab: Lab, name: str, *inputs: str, train: bool = False) -> JsonObject:
    """Return what the worker measures, without what follows from it."""
    with lab.worker() as worker:
        worker.load(TargetSpec(name, inputs))
        return worker.ask("profile", {"train": train, "seconds": 0.05, "seed": 0}).result


@pytest.fixture(scope="module")
def training(lab):
    return profile_of(lab, "network.py:network", "randn(6,16)", train=True)


@pytest.fixture(scope="module")
def step(lab):
    return profile_of(lab, "steps.py:trains")


def of_line(report: MeasurementReport, name: str, line: str, phase: str = "forward") -> list[dict[str, object]]:
    rows = report.result["operations"]
    return [row for row in rows if (row["name"], row["line"], row["phase"]) == (name, LINES[line], phase)]


def test_each_operation_has_the_line_and_the_module_that_asked_for_it(training):
    rows = of_line(training, "aten::addmm", "inner")
    assert sorted((row["module"], row["file"], row["function"], row["count"]) for row in rows) == [
        ("Sequential.0.inner", "network.py", "Block.forward", 1),
        ("Sequential.1.inner", "network.py", "Block.forward", 1),
    ]


def test_a_gradient_has_the_line_whose_gradient_it_is(training):
    rows = of_line(training, "aten::mm", "outer", "backward")
    assert sorted((row["module"], row["count"]) for row in rows) == [
        ("Sequential.0.outer", 2),
        ("Sequential.1.outer", 2),
    ]


def test_flops_are_those_of_the_products(training):
    rows = training.result["operations"]
    flops = {
        phase: sum(row.get("flops", 0) for row in rows if row["phase"] == phase) for phase in ("forward", "backward")
    }
    assert flops == {"forward": FORWARD_FLOPS, "backward": BACKWARD_FLOPS}
    assert training.result["analysis"]["achieved"]["flops"] == FORWARD_FLOPS + BACKWARD_FLOPS


def test_bytes_are_those_of_operands_and_results(training):
    (row,) = (row for row in of_line(training, "aten::relu", "inner") if row["module"] == "Sequential.0")
    assert row["moved_bytes"] == 2 * ROWS * OUT * 4


def test_times_are_those_of_the_calls_that_were_not_watched(training):
    assert training.result["matched_calls"] == len(training.result["profiled"]["calls"])


def test_shares_of_a_call_are_one_together(training):
    assert sum(training.result["analysis"]["shares"].values()) == pytest.approx(1, abs=1e-4)


def test_torch_and_cprofile_each_say_which_function_takes_most(training):
    hot = training.result["analysis"]["hot"]
    assert (hot["file"], hot["name"]) == ("network.py", "Block.forward")
    assert [each["tool"] for each in hot["witnesses"]] == ["torch.profiler", "cProfile"]


def test_what_follows_is_worked_out_again_from_the_report_alone(training):
    kept = json.loads(training.text())
    assert MEASUREMENT.conclusions(kept) == training.result


def test_a_trace_a_memory_timeline_and_a_plot_are_left(training):
    made = {each.path.name: each.path for each in training.made}
    trace = next(path for name, path in made.items() if name.startswith("trace.json"))
    text = gzip.decompress(trace.read_bytes()) if trace.suffix == ".gz" else trace.read_bytes()
    assert any(event.get("name") == "aten::addmm" for event in json.loads(text)["traceEvents"])
    memory = json.loads(made["memory.json"].read_text(encoding="utf-8"))
    assert max(size for _, size in memory["points"]) == memory["peak_bytes"] > ROWS * OUT * 4
    assert ET.parse(made["profile.svg"]).getroot().tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - our own file
    assert {each["name"] for each in training.body["artifacts"]} == set(made)


def test_the_commands_that_verify_it_are_named(training):
    assert training.result["analysis"]["verify"] == [
        "esper torch profile network.py:network --input 'randn(6,16)' --train",
        "esper torch compare network.py:network NEW --input 'randn(6,16)' --train",
    ]


def test_the_screen_shows_the_bottleneck_the_lines_and_the_ceilings(training):
    shown = printed(training, width=160)
    assert training.result["headline"] in shown
    assert f"network.py:{LINES['inner']}" in shown
    assert "GFLOP/s" in shown
    assert "cProfile" in shown


def test_a_training_step_is_split_into_input_backward_and_optimizer(step):
    assert all(step.result["analysis"]["split"][name] > 0 for name in ("input", "forward", "backward", "optimizer"))
    phases = {row["phase"] for row in step.result["operations"]}
    assert phases == {"forward", "backward", "optimizer", "input"}


def test_where_the_host_would_wait_is_counted_by_line(step):
    assert {"what": "item", "file": "steps.py", "line": LINES["waits"], "count": 1} in step.result["waits"]


@pytest.mark.slow
def test_a_slow_loader_bounds_a_step_and_is_named(lab):
    analysis = profile_of(lab, "steps.py:loads").result["analysis"]
    assert (analysis["bottleneck"], analysis["is_clear"]) == ("data-loading", True)
    assert analysis["advice"][0]["file"] == "steps.py"


@pytest.mark.slow
def test_many_small_operations_are_bound_by_dispatch_and_their_line_is_named(lab):
    analysis = profile_of(lab, "steps.py:adds_many_times").result["analysis"]
    assert (analysis["bottleneck"], analysis["overhead"]["operations"]) == ("dispatch-and-python", 200)
    assert (analysis["advice"][0]["file"], analysis["advice"][0]["line"]) == ("steps.py", LINES["adds"])


@pytest.mark.slow
def test_a_large_product_is_bound_by_arithmetic(lab):
    analysis = profile_of(lab, "steps.py:multiplies").result["analysis"]
    (row,) = (row for row in analysis["operations"] if row["name"] == "aten::mm")
    assert (analysis["bottleneck"], row["line"], row["flops"]) == ("cpu-compute", LINES["multiplies"], 2 * 384**3)
    assert row["product_ceiling_share"] > 0


@pytest.mark.slow
def test_compiled_code_is_profiled_and_has_no_lines(lab):
    result = measured_of(lab, "network.py:runs_compiled", "randn(4,4)")
    assert [each["what"] for each in result["missing"]] == ["operations by line and module"]
    assert {row["name"] for row in result["operations"]} == {"aten::add"}


@pytest.mark.slow
def test_inputs_that_a_call_changes_are_made_anew_and_without_a_backward_pass_it_is_missing(lab):
    result = measured_of(lab, "network.py:doubles_in_place", "ones(4)", train=True)
    assert result["mutates_inputs"]
    assert [each["what"] for each in result["missing"]] == ["backward"]
    assert len(result["inputs_ns"]) > sum(each["calls"] for each in result["rounds"])


def test_an_error_of_the_target_names_its_line(lab):
    with pytest.raises(WorkerError, match="no such luck") as caught:
        measured_of(lab, "network.py:raises", "ones(4)")
    assert caught.value.where == f"network.py:{LINES['raises']}"


def test_a_step_that_runs_out_of_input_says_how_to_let_it_start_over(lab):
    with pytest.raises(UsageError, match=r"ran out of input in call 4") as caught:
        measured_of(lab, "steps.py:ends")
    assert "cycle" in caught.value.remedy


@pytest.mark.slow
def test_others_that_look_from_outside_say_what_they_saw_or_why_they_did_not(lab):
    result = profile(lab, TargetSpec("steps.py:multiplies"), train=False, seconds=0.05, look=True).result
    assert {each["tool"] for each in result["witnesses"]} >= {"py-spy", "perf"}
    assert all(each.get("top") or (each["missing"] and each["remedy"]) for each in result["witnesses"])
