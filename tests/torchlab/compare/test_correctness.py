"""Whether a candidate is the same function as its baseline, on cheats and on honest pairs, in real workers."""

from pathlib import Path

import pytest

from esper_agents.torchlab.compare.compare import ComparisonMode, ComparisonRequest, compare
from esper_agents.torchlab.compare.correctness import CheckLimits, Correctness
from esper_agents.torchlab.compare.measure import Arm
from esper_agents.torchlab.compare.result import ComparisonOutcome
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.measurements.compare import MEASUREMENT
from esper_agents.torchlab.target import TargetSpec

torch = pytest.importorskip("torch", reason="no torch: NOTHING was compared")

PAIRS = Path(__file__).parents[3] / "benchmarks" / "adversarial"
# A cheat, the check that shows it, and an input that does.
CHEATS = {
    "cached_by_version": ("values", "the same memory with other numbers"),
    "cached_object": ("values", "the caller wrote into what was returned before"),
    "shared_output_buffer": ("earlier-outputs", "all calls"),
    "gradient_wrong": ("gradients", "plain 1"),
    "stale_weights_in_inference": ("fresh-parameters", "parameters changed in place"),
    "patched_equal": ("patched", "all calls"),
    "lazy_disguised": ("type", "plain 1"),
    "ends_the_process": ("runs", "plain 1"),
    "wrong_for_twice_the_rows": ("values", "leading dimension 128"),
    "wrong_in_inference_mode": ("values", "inference mode"),
    "wrong_for_a_row_of_nan": ("values", "a row of NaN"),
    "views_of_one_buffer": ("values", "parts of one memory"),
    "gradient_by_order_in_memory": ("gradients", "transposed memory"),
    "wrong_in_another_thread": ("values", "another thread"),
    "default_of_an_argument_changed": ("values", "defaults of arguments"),
    "collector_off": ("global-state", "all calls"),
    "patches_the_measuring_code": ("patched", "all calls"),
}
HONEST = ["honest_rounded", "honest_one_weight_for_three", "honest_cached_mask", "honest_channels_last_inside"]
TRAINED = {"gradient_wrong", "gradient_by_order_in_memory"}


@pytest.fixture(scope="module")
def lab():
    with Lab(PAIRS, LabSettings(timeout_s=60)) as opened:
        yield opened


def arms_of(name):
    return tuple(Arm(TargetSpec(f"{name}.py:{which}"), PAIRS) for which in ("baseline", "candidate"))


def failed(lab, name, allow=()):
    arms = arms_of(name)
    with Correctness(lab, arms, seed=4, train=name in TRAINED, allow=allow) as correctness:
        checks = correctness.checks(lambda _what, _fraction: None)
    assert checks
    return {(check.check, check.variant) for check in checks if not check.is_passed}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_seen_with_the_check_and_the_input_that_show_it(lab, name):
    assert CHEATS[name] in failed(lab, name)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_candidate_is_let_through(lab, name):
    assert failed(lab, name) == set()


def test_a_difference_that_a_person_allows_is_no_fault(lab):
    assert failed(lab, "strides_changed", allow=["strides"]) == set()


# Cheats that show in timed calls alone, and the check that shows them; without one, they are not faster.
TIMED = {
    "work_of_the_kept_call_only": None,
    "counts_to_the_kept_call": None,
    "answers_come_with_the_inputs": None,
    "gradient_of_ones_left_out": None,
    "clock_that_says_a_little_more": "patched",
    "mutation_left_out_when_timed": "mutation",
    "statistics_left_out_when_timed": "state",
    "torch_slowed_for_the_baseline": "patched",
    "baseline_given_other_code": "patched",
    "affinity_changed": "global-state",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TIMED)
def test_a_cheat_of_timed_calls_is_not_accepted(lab, name):
    mode = ComparisonMode.TRAINING_STEP if name.startswith("gradient") else ComparisonMode.LATENCY
    question = ComparisonRequest(mode=mode, claim=1.25, has_extras=False)
    result = MEASUREMENT.parsed(compare(lab, *arms_of(name), question))
    assert result.verdict.outcome is not ComparisonOutcome.FASTER
    if TIMED[name] is not None:
        assert {failed_check.check for failed_check in result.failed_checks} == {TIMED[name]}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("wrong_in_a_copy", "a copy of the module"),
        ("weights_of_the_first_instance", "a copy of the module"),
        ("wrong_for_another_default_dtype", "float64 by default"),
        ("integers_overflow", "integers larger than yours"),
    ],
)
def test_what_is_not_held_against_a_candidate_is_listed_as_not_tested(lab, name, kind):
    with Correctness(lab, arms_of(name), seed=4, train=False, allow=()) as correctness:
        checks = correctness.checks(lambda _what, _fraction: None)
    assert all(check.is_passed for check in checks)
    assert kind in {each.what for each in correctness.notes.missing}


def test_a_gradient_that_is_missing_for_an_empty_batch_is_a_note(tmp_path):
    (tmp_path / "pair.py").write_text(
        """
import torch

class Skips(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.T, x.T @ gradient if x.shape[0] else None

def get_inputs():
    return torch.randn(8, 4, requires_grad=True), torch.randn(4, 3, requires_grad=True)

def baseline(x, w):
    return x @ w

def candidate(x, w):
    return Skips.apply(x, w)
"""
    )
    arms = tuple(Arm(TargetSpec(f"pair.py:{which}"), tmp_path) for which in ("baseline", "candidate"))
    with Lab(tmp_path, LabSettings(timeout_s=60)) as lab, Correctness(lab, arms, seed=4, train=True, allow=()) as seen:
        checks = seen.checks(lambda _what, _fraction: None)
        assert [str(check) for check in checks if check.check == "gradients" and not check.is_passed] == []
        assert [note.variant for note in seen.notes.notes if "gradients are None" in note.text] == [
            "leading dimension 0"
        ]


def test_a_candidate_that_is_less_exact_in_a_format_nobody_asked_for_is_said_to_be(tmp_path):
    (tmp_path / "pair.py").write_text(
        """
import torch

def get_inputs():
    return torch.randn(16384), torch.arange(16384) // 512

def baseline(x, group):
    return torch.stack([x[group == each].sum() for each in range(32)])

def candidate(x, group):
    return torch.zeros(32, dtype=x.dtype).index_add_(0, group, x)
"""
    )
    arms = tuple(Arm(TargetSpec(f"pair.py:{which}"), tmp_path) for which in ("baseline", "candidate"))
    is_all = {"allow": (), "limits": CheckLimits(is_thorough=True)}
    with Lab(tmp_path) as lab, Correctness(lab, arms, seed=0, train=False, **is_all) as correctness:
        checks = correctness.checks(lambda _what, _fraction: None)
        assert [str(check) for check in checks if not check.is_passed] == []
        said = {each.what: each.why for each in correctness.notes.missing}
    assert said["float16"].startswith("B is less exact: output: ")
