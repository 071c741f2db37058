"""Whether a candidate is the same function as its baseline, on cheats and on honest pairs, in real workers."""

from pathlib import Path

import pytest

from esper_agents.torchlab.compare.correctness import Correctness
from esper_agents.torchlab.compare.measure import Arm
from esper_agents.torchlab.lab import Lab, LabSettings
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
}
HONEST = ["honest_rounded", "honest_one_weight_for_three"]
TRAINED = {"gradient_wrong"}


@pytest.fixture(scope="module")
def lab():
    with Lab(PAIRS, LabSettings(timeout_s=60)) as opened:
        yield opened


def failed(lab, name, allow=()):
    arms = tuple(Arm(TargetSpec(f"{name}.py:{which}"), PAIRS) for which in ("baseline", "candidate"))
    with Correctness(lab, arms, seed=4, train=name in TRAINED, allow=allow) as correctness:
        checks = correctness.checks(lambda _what, _fraction: None)
    assert checks
    return {(each.check, each.variant) for each in checks if not each.is_passed}


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
