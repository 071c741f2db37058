"""Input pipelines that are measured in real processes: what waits, which setting helps, which line costs most."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator

from esper_agents.domain.codec import decode
from esper_agents.errors import IntegrityError, UsageError
from esper_agents.torchlab import bubblewrap
from esper_agents.torchlab import report as reports
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements import data
from esper_agents.torchlab.measurements.data import MEASUREMENT, DataOptions, DataResult, run
from esper_agents.torchlab.recheck import recheck
from esper_agents.torchlab.report import MeasurementReport
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker.process import landlock
from esper_agents.torchlab.worker_failure import WorkerError

torch = pytest.importorskip("torch", reason="no torch: NOTHING was measured")

PROJECT = Path(__file__).parents[1] / "data_project"
SOURCE = (PROJECT / "loaders.py").read_text()
SLEEP = "        time.sleep(0.005)"
SCHEMA = json.loads(Path(reports.__file__).with_name("report.schema.json").read_text(encoding="utf-8"))

# Workers of a loader meet by sockets, which Landlock alone lets through since version 9.
with_workers = pytest.mark.skipif(
    bubblewrap.find() is None and landlock.version() < landlock.SOCKETS_SINCE,
    reason="no bubblewrap, and this Landlock closes the sockets of workers: pipelines with workers were NOT measured",
)


@pytest.fixture(scope="module")
def lab():
    with Lab(PROJECT) as opened:
        yield opened


@pytest.fixture(scope="module")
def measured(lab):
    """Measure a pipeline once for all tests."""
    known = {}

    def measured(name, step="make_fast_step"):
        if (name, step) not in known:
            options = DataOptions(step=f"loaders.py:{step}" if step else "", effort=Effort.QUICK)
            known[name, step] = run(lab, TargetSpec(f"loaders.py:{name}"), options, None)
        return known[name, step]

    def result(name, step="make_fast_step"):
        return decode(DataResult, json.dumps(measured(name, step).result))

    result.report = measured
    return result


def variants(result):
    return {variant.num_workers: variant for variant in result.variants}


def test_a_slow_dataset_is_the_bottleneck(measured):
    result = measured("slow_data")
    assert (result.status, result.is_clear) == ("data", True)
    assert result.share > 0.5
    assert result.headline.startswith("the input pipeline is the bottleneck: the step waits ")


@with_workers
def test_workers_that_help_are_recommended_with_their_measured_times(measured):
    result = measured("slow_data")
    with_two = variants(result)[2]
    assert result.gain.setting.startswith("num_workers=")
    assert 1.05 <= result.gain.lowest <= result.gain.speedup <= result.gain.highest
    assert result.gain.after_ns < result.gain.before_ns
    assert len(with_two.rounds) >= 3
    assert f"set {result.gain.setting}: " in result.change[0]


def test_the_most_expensive_line_is_that_of_the_decoding_and_not_its_caller(measured):
    result = measured("slow_data")
    numbers = [number for number, line in enumerate(SOURCE.splitlines(), 1) if line == SLEEP]
    assert (result.hot.file, result.hot.line) == ("loaders.py", numbers[0])
    assert 3_000_000 < result.hot.sample_ns < result.lines.plain_ns
    caller = next(row for row in result.lines.rows if row.source == "sample = self.decode(index)")
    assert caller.own_ns < result.lines.rows[0].own_ns < caller.total_ns


@pytest.mark.parametrize(("share", "status"), [(0.0, "step"), (0.9, "data"), (1.0, "data")])
def test_the_share_of_the_time_that_the_step_waits_says_what_the_bottleneck_is(share, status):
    assert data._status(share, SimpleNamespace(step="loaders.py:make_fast_step")) == status
    assert data._status(share, SimpleNamespace(step=None)) == "no-step"


@pytest.mark.slow
def test_a_slow_step_makes_the_step_the_bottleneck(measured):
    result = measured("fast_data", "make_slow_step")
    assert (result.status, result.gain) == ("step", None)
    assert result.share < 0.1
    assert not result.change


@pytest.mark.slow
def test_without_a_step_only_the_loader_is_measured(measured):
    result = measured("slow_data", "")
    assert (result.status, result.step) == ("no-step", None)
    assert result.headline.startswith("the loader delivers a batch every ")


@pytest.mark.slow
@with_workers
def test_a_stream_that_each_worker_repeats_is_not_given_more_workers(measured):
    result = measured("stream")
    assert variants(result)[2].repeats_data is True
    assert result.gain is None or "num_workers=1" in result.gain.setting
    if variants(result)[2].rounds and any("is faster" in each for each in result.change):
        assert any("each worker loads all of the data" in each for each in result.change)


@pytest.mark.slow
def test_a_stream_that_workers_divide_may_be_given_more(measured):
    assert variants(measured("shared_stream"))[2].repeats_data is False


def test_a_lambda_that_cannot_be_sent_to_workers_fails_with_its_own_settings_by_name(lab):
    with pytest.raises(WorkerError, match=r"pickle|lambda"):
        run(lab, TargetSpec("loaders.py:with_lambda"), DataOptions(effort=Effort.QUICK), None)


def test_a_dataset_that_raises_is_reported_at_its_line(lab):
    with pytest.raises(WorkerError, match="sample 0 is damaged") as caught:
        run(lab, TargetSpec("loaders.py:broken"), DataOptions(effort=Effort.QUICK), None)
    line = next(number for number, text in enumerate(SOURCE.splitlines(), 1) if "is damaged" in text)
    assert caught.value.where.startswith(f"loaders.py:{line}")


@pytest.mark.slow
def test_a_step_that_raises_is_reported_at_its_line(lab):
    with pytest.raises(WorkerError, match="label") as caught:
        run(
            lab,
            TargetSpec("loaders.py:fast_data"),
            DataOptions(step="loaders.py:broken_step", effort=Effort.QUICK),
            None,
        )
    assert caught.value.where.startswith("loaders.py:")


@pytest.mark.slow
def test_a_setting_that_raises_leaves_the_others(measured):
    result = measured("broken_in_workers")
    assert "no file handle in workers" in variants(result)[2].error
    assert not variants(result)[0].error
    assert result.gain is None


@pytest.mark.slow
def test_a_dataset_is_wrapped_in_a_loader(lab):
    report = run(lab, TargetSpec("loaders.py:Slow"), DataOptions(batch_size=3, effort=Effort.QUICK), None)
    loader = report.result["loader"]
    assert (loader["is_wrapped"], loader["batch_size"], loader["kind"]) == (True, 3, "map")
    assert (report.body["target"]["file"], report.body["target"]["kind"]) == ("loaders.py", "loader")


@pytest.mark.slow
def test_of_two_loaders_the_first_is_measured(lab):
    report = run(lab, TargetSpec("loaders.py:two_loaders"), DataOptions(effort=Effort.QUICK), None)
    assert report.result["loader"]["dataset"] == "Slow"
    assert "other loaders" in [each["what"] for each in report.result["missing"]]


@pytest.mark.slow
def test_a_generator_is_measured_as_it_is(measured):
    result = measured("generator")
    assert (result.loader.kind, len(result.variants), result.status) == ("other", 1, "data")
    assert "the pipeline is not a DataLoader" in [each.why for each in result.missing]


@pytest.mark.slow
def test_a_loader_object_needs_no_factory(lab):
    report = run(lab, TargetSpec("loaders.py:loader"), DataOptions(effort=Effort.QUICK), None)
    assert report.result["loader"]["dataset"] == "Slow"


def test_pinning_is_not_measured_without_a_gpu_and_the_report_says_so(measured):
    result = measured("slow_data")
    assert "pin_memory" in [each.what for each in result.missing]
    assert not any(variant.pin_memory for variant in result.variants)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("settings", "the target gives a dict"),
        ("empty", "the input pipeline has no batch"),
        ("nothing", "has no 'nothing'"),
        ("broken_step", "needs arguments: batch"),
    ],
)
def test_what_is_no_pipeline_is_refused(lab, name, problem):
    with pytest.raises(UsageError, match=problem):
        run(lab, TargetSpec(f"loaders.py:{name}"), DataOptions(effort=Effort.QUICK), None)


@with_workers
def test_a_report_is_rechecked_and_a_changed_one_is_refused(measured, tmp_path):
    report = measured.report("slow_data")
    body = json.loads(report.text())
    assert recheck(MeasurementReport("data", body), tmp_path).says == report.result["headline"]
    changed = deepcopy(body)
    changed["result"]["variants"][0]["rounds"][0]["wait_ns"] //= 2
    changed["result"]["gain"]["speedup"] = 9.0
    with pytest.raises(IntegrityError, match="gain"):
        recheck(MeasurementReport("data", changed), tmp_path)


def test_a_report_is_what_the_schema_says(measured):
    for name in ("slow_data", "generator", "broken_in_workers"):
        body = json.loads(measured.report(name).text())
        assert list(Draft202012Validator(SCHEMA).iter_errors(body)) == []


def test_conclusions_are_made_from_the_measured_part_alone(measured):
    report = measured.report("slow_data")
    own = ("status", "is_clear", "share", "headline", "gain", "hot", "change")
    assert (
        MEASUREMENT.conclusions({"result": {n: each for n, each in report.result.items() if n not in own}})
        == report.result
    )


@with_workers
def test_a_setting_is_not_recommended_if_one_round_is_not_faster(measured):
    times = deepcopy(measured.report("slow_data").result)
    for variant in times["variants"][1:]:
        variant["rounds"][0]["batch_ns"] = times["variants"][0]["rounds"][0]["batch_ns"]
    result = MEASUREMENT.conclusions({"result": times})
    assert result["gain"] is None
    assert any("no measured setting of the loader is faster" in each for each in result["change"])
