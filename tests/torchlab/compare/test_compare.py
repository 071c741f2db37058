"""Tests of whole comparisons, with real workers and real clocks; none looks at how long anything took."""

import copy
import json
import os
import subprocess
import threading

import pytest

from esper_agents.errors import IntegrityError, UsageError
from esper_agents.torchlab.compare.change_control import BaseRevision, ChangeControl
from esper_agents.torchlab.compare.compare import ComparisonMode, ComparisonRequest, compare
from esper_agents.torchlab.compare.correctness import OutputMetric
from esper_agents.torchlab.compare.measure import Arm, _children
from esper_agents.torchlab.compare.secondary_metrics import secondary_metrics
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.recheck import recheck
from esper_agents.torchlab.report import MeasurementReport, read
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError, WorkerFailureKind

torch = pytest.importorskip("torch", reason="no torch: NOTHING was compared")

OPS = """
import random, time
import torch
from torch import nn


def _work(x, times):
    for _ in range(times):
        y = torch.tanh(x)
    return y


def slow(x):
    return _work(x, 40)


def fast(x):
    return _work(x, 4)


def wrong(x):
    return torch.tanh(x) + (x.shape[0] == 1)


def dies(x):
    import os
    os._exit(0)


_COUNT = [0]


def dies_later(x):
    _COUNT[0] += 1
    if _COUNT[0] > 60 and torch.is_grad_enabled() and x.shape[0] == 32 and _loop():
        import os
        os._exit(3)
    return torch.tanh(x)


def _loop():
    import sys
    frame = sys._getframe(2)
    return frame.f_globals["__name__"].endswith("timing_job")


def random_one(x):
    return x + time.time_ns() % 1000


def constant(x):
    return _work(x, 40)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 16), nn.Tanh())


def other_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 16), nn.Tanh())


def whole_numbers():
    return (torch.arange(64).reshape(8, 8),)


def rough(x):
    return _work(x, 4) * 1.0001


def mean(output, x):
    return output.abs().mean()


def embed(x):
    return x + 1
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("ops")
    (root / "ops.py").write_text(OPS)
    return root


@pytest.fixture(scope="module")
def lab(project):
    with Lab(project, LabSettings(timeout_s=20)) as opened:
        yield opened


@pytest.fixture(scope="module")
def faster(lab, project):
    """Return one comparison that several tests look at."""
    base = BaseRevision(project, "0" * 40, is_target_changed=True, others=("other.py",))
    return compare(
        lab, *pair(lab, "slow", "fast"), ComparisonRequest(claim=1.5), governance=ChangeControl(base, flag="use_fast")
    )


def pair(lab, one, other, **given):
    given = given or {"inputs": ("randn(32,64)",)}
    return [Arm(TargetSpec(f"ops.py:{name}", **given), lab.project) for name in (one, other)]


def outcome(lab, one, other, question=None, **given):
    question = question or ComparisonRequest(has_extras=False)
    return compare(lab, *pair(lab, one, other, **given), question).result["verdict"]


def test_a_candidate_that_does_a_tenth_of_the_work_is_faster_as_claimed(faster):
    assert faster.result["verdict"]["outcome"] == "faster as claimed"
    assert faster.result["verdict"]["speedup"]["lower"] > 1.5


def test_a_report_holds_every_sample_and_what_it_was_measured_on(faster):
    result = faster.result
    assert all(len(each["baseline"]["batch_ns"]) == 2 * result["plan"]["quads"] for each in result["samples"])
    assert len({each["seed"] for each in result["samples"]}) == len(result["samples"])
    assert faster.body["environment"]["torch"]["version"] == torch.__version__
    assert faster.body["sandbox"]["sandbox"] in {"bubblewrap", "landlock"}


def test_a_report_says_what_memory_both_arms_need(faster):
    beside = faster.result["beside"]
    assert beside["candidate"]["peak_bytes"] >= 2 * 32 * 64 * 4
    assert "operations" not in beside["candidate"]


def test_graphs_are_counted_where_they_are_asked_for(lab, project):
    arms = [Arm(TargetSpec(f"ops.py:{name}", ("randn(32,64)",)), project) for name in ("slow", "fast")]
    beside = secondary_metrics(lab, (arms[0], arms[1]), train=False, has_graphs=True, tell=lambda *_: None)
    assert beside.baseline.graph_breaks == beside.candidate.graph_breaks == 0
    assert (beside.baseline.operations, beside.candidate.operations) == (40, 4)


def test_a_report_says_what_its_parts_took(faster):
    took = faster.result["took"]
    assert took.keys() == {"start_ns", "correctness_ns", "timing_ns"}
    assert 0 < took["timing_ns"] + took["correctness_ns"] < faster.body["duration_ns"]


def test_a_report_says_what_else_changed_and_the_way_back(faster):
    said = dict(faster.result["governance"]["said"])
    assert "more than one" in said["variable"]
    assert "other.py" in said["variable"]
    assert said["way back"] == "turn off use_fast"


def test_the_verdict_is_recomputed_from_the_file_alone(faster, tmp_path):
    (tmp_path / "report.json").write_text(faster.text())
    says = recheck(read(tmp_path / "report.json"), tmp_path).says
    assert says == f"faster as claimed: {faster.result['verdict']['because'][0]}"


def test_a_report_with_another_verdict_is_refused(faster, tmp_path):
    body = copy.deepcopy(dict(faster.body))
    body["result"]["verdict"]["speedup"]["estimate"] = 99.0
    with pytest.raises(IntegrityError, match="do not follow from its measurements: verdict"):
        recheck(MeasurementReport("compare", body), tmp_path)


def test_a_report_with_another_sample_is_refused(faster, tmp_path):
    body = json.loads(faster.text())
    for sample in body["result"]["samples"]:
        sample["candidate"]["run_ns"] = [each // 2 for each in sample["candidate"]["run_ns"]]
    with pytest.raises(IntegrityError):
        recheck(MeasurementReport("compare", body), tmp_path)


@pytest.mark.parametrize(("name", "forged"), [("threshold", 1.01), ("allow", ["waiting"])])
def test_a_report_judged_by_what_nobody_asked_for_is_refused(faster, name, forged, tmp_path):
    body = json.loads(faster.text())
    body["result"][name] = forged
    with pytest.raises(IntegrityError, match="but the verdict used"):
        recheck(MeasurementReport("compare", body), tmp_path)


def test_a_report_with_rules_of_its_own_says_so(faster, tmp_path):
    body = json.loads(faster.text())
    assert "that are not those of here" not in recheck(MeasurementReport("compare", body), tmp_path).says
    body["result"]["rules"]["witnesses"]["most_idle_share"] = 1.0
    assert "that are not those of here" in recheck(MeasurementReport("compare", body), tmp_path).says


def test_a_process_that_a_second_thread_started_is_counted():
    ready, done = threading.Event(), threading.Event()

    def start():
        with subprocess.Popen(["sleep", "60"]) as child:
            ready.set()
            done.wait(30)
            child.kill()

    before = _children(os.getpid())
    beside = threading.Thread(target=start)
    beside.start()
    assert ready.wait(30)
    assert _children(os.getpid()) == before + 1
    done.set()
    beside.join()


@pytest.mark.slow
def test_an_identical_copy_is_never_faster(lab):
    assert outcome(lab, "fast", "fast")["outcome"] in {"not as fast as claimed", "not shown"}


@pytest.mark.slow
def test_a_candidate_that_errs_on_one_row_is_wrong_and_says_where(lab):
    verdict = outcome(lab, "slow", "wrong")
    assert verdict["outcome"] == "wrong"
    assert "speedup" not in verdict


def test_a_candidate_that_ends_its_process_is_wrong(lab):
    verdict = outcome(lab, "slow", "dies")
    assert verdict["outcome"] == "wrong"
    assert "ended its process (code 0) without an answer" in verdict["because"][0]


@pytest.mark.slow
def test_a_candidate_that_dies_only_when_it_is_timed_is_an_error(lab):
    verdict = outcome(lab, "slow", "dies_later")
    assert verdict["outcome"] == "error"
    assert "ended its process (code 3)" in verdict["because"][0]


def test_a_baseline_that_dies_is_no_verdict(lab):
    with pytest.raises(WorkerError) as caught:
        outcome(lab, "dies", "fast")
    assert caught.value.outcome is WorkerFailureKind.EXITED
    assert caught.value.label == "baseline"


@pytest.mark.slow
def test_a_baseline_that_never_does_the_same_twice_is_bad_input(lab):
    with pytest.raises(UsageError, match="is not deterministic"):
        outcome(lab, "random_one", "fast")


@pytest.mark.slow
def test_modules_with_the_same_weights_are_compared_in_training(lab):
    question = ComparisonRequest(mode=ComparisonMode.TRAINING_STEP, has_extras=False)
    verdict = outcome(lab, "net", "other_net", question, inputs=("randn(4,16)",))
    assert verdict["outcome"] in {"not as fast as claimed", "not shown"}


@pytest.mark.slow
@pytest.mark.parametrize(("tolerance", "is_wrong"), [(0.01, False), (1e-9, True)])
def test_a_metric_of_the_persons_own_judges_the_numbers(lab, tolerance, is_wrong):
    question = ComparisonRequest(metric=OutputMetric("ops.py:mean", tolerance), has_extras=False)
    verdict = outcome(lab, "slow", "rough", question)
    assert (verdict["outcome"] == "wrong") is is_wrong, verdict["because"]


@pytest.mark.slow
def test_without_a_metric_rough_numbers_are_wrong(lab):
    assert outcome(lab, "slow", "rough")["outcome"] == "wrong"


@pytest.mark.slow
def test_inputs_that_never_change_are_said_to_be_remembered(lab):
    report = compare(
        lab,
        *pair(lab, "embed", "embed", inputs_from="ops.py:whole_numbers"),
        ComparisonRequest(has_extras=False),
    )
    assert report.result["plan"]["remembers"] is True
