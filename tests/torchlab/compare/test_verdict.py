"""Tests of the verdict: what samples say, and what the clocks outside of the processes hold against it."""

import copy
import json

import pytest

from esper_agents.domain.codec import parsed, plain
from esper_agents.torchlab.compare.acceptance_rules import acceptance
from esper_agents.torchlab.compare.result import ComparisonMeasurements
from esper_agents.torchlab.compare.verdict import judge as judged

CALLS, LEAD_IN, BESIDE_NS = 4, 1, 300_000
PLAN = {
    "calls": [CALLS, CALLS],
    "lead_in": [LEAD_IN, LEAD_IN],
    "quads": 3,
    "warm_calls": 3,
    "train": False,
    "remembers": False,
}


def judge(found):
    """Return the verdict on measurements as they stand in a report."""
    return plain(judged(parsed(ComparisonMeasurements, found)))


def arm(call_ns, *, outside_call_ns=None, processor_call_ns=None, idle=0.0, processes=0, queued_ns=0):
    """Return one side of a replicate whose calls take so long by each clock."""
    outside, processor = (each or call_ns for each in (outside_call_ns, processor_call_ns))
    wall = 50_000_000
    return {
        "batch_ns": [CALLS * call_ns + extra for extra in (0, 900, 40_000)],
        "outside_ns": [BESIDE_NS + (CALLS + LEAD_IN) * outside + extra for extra in (0, 7_000, 90_000)],
        "processor_ns": [BESIDE_NS + (CALLS + LEAD_IN) * processor + extra for extra in (0, 100, 3_000)],
        "queued_ns": [queued_ns] * 3,
        "idle_ns": int(idle * wall),
        "idle_wall_ns": wall,
        "processes_started": processes,
    }


def measured(baseline_ns, candidate_ns, *, replicates=8, wobble=0.002, **candidate):
    """Return what a comparison measured: so many replicates that differ by a wobble to either side."""
    samples = []
    for number in range(replicates):
        factor = 1 + wobble * (number % 5 - 2)
        samples.append(
            {
                "seed": number,
                "order": "ABBA",
                "processor": 0,
                "calls": [CALLS, CALLS],
                "lead_in": [LEAD_IN, LEAD_IN],
                "baseline": arm(int(baseline_ns * factor)),
                "candidate": arm(candidate_ns, **candidate),
                "rechecked": [{"check": "values", "variant": "a timed call", "is_passed": True, "detail": "the same"}],
            }
        )
    return {
        "checks": [{"check": "values", "variant": "plain", "is_passed": True, "detail": "the same"}],
        "samples": samples,
        "rules": copy.deepcopy(dict(plain(acceptance()))),
        "threshold": 1.25,
        "threads": 1,
        "device": "cpu",
        "allow": [],
        "plan": PLAN,
    }


def test_a_speedup_above_the_threshold_is_as_claimed():
    verdict = judge(measured(500_000, 333_333))
    assert verdict["outcome"] == "faster as claimed"
    assert verdict["speedup"]["lower"] > 1.25
    assert verdict["latency_drop"] == pytest.approx(1 / 3, abs=0.01)


def test_a_speedup_below_the_threshold_is_not_as_claimed():
    verdict = judge(measured(500_000, 430_000))
    assert verdict["outcome"] == "not as fast as claimed"
    assert verdict["speedup"]["upper"] < 1.25


def test_an_identical_copy_is_not_as_claimed():
    assert judge(measured(500_000, 500_000))["outcome"] == "not as fast as claimed"


def test_a_threshold_inside_the_interval_is_not_shown_and_a_further_look_may_decide():
    verdict = judge(measured(500_000, 400_000))
    assert (verdict["outcome"], verdict["is_final"]) == ("not shown", False)


def test_after_the_last_look_not_shown_is_final():
    verdict = judge(measured(500_000, 400_000, replicates=24, wobble=0.02))
    assert (verdict["outcome"], verdict["is_final"], verdict["replicates"]) == ("not shown", True, 24)


def test_too_few_replicates_show_nothing():
    verdict = judge(measured(500_000, 250_000, replicates=7))
    assert (verdict["outcome"], verdict["is_final"]) == ("not shown", False)
    assert "7 replicates were timed, and the first look needs 8" in verdict["because"]


def test_a_failed_check_is_wrong_however_fast():
    found = measured(500_000, 100_000)
    found["checks"].append({"check": "values", "variant": "rows of zeros", "is_passed": False, "detail": "0 for 1"})
    verdict = judge(found)
    assert verdict["outcome"] == "wrong"
    assert verdict["because"] == ["values on rows of zeros: 0 for 1"]


def test_a_wrong_answer_of_a_timed_call_is_wrong():
    found = measured(500_000, 100_000)
    found["samples"][5]["rechecked"][0].update(is_passed=False, detail="it answered another question")
    assert judge(found)["outcome"] == "wrong"


def test_a_worker_that_failed_is_an_error_and_not_a_speedup():
    found = {
        **measured(500_000, 100_000),
        "error": {"outcome": "crashed", "problem": "c.py:f crashed with SIGSEGV", "where": "", "said": ""},
    }
    assert judge(found) == {"outcome": "error", "because": ["c.py:f crashed with SIGSEGV"], "is_final": True}


@pytest.mark.parametrize(
    ("cheat", "why"),
    [
        ({"outside_call_ns": 500_000, "processor_call_ns": 500_000}, "is gone on the clock outside of its process"),
        ({"processor_call_ns": 500_000}, "is gone from its processor time"),
        ({"idle": 0.4}, "while it should be idle"),
        ({"processes": 1}, "leaves 1 processes running"),
    ],
)
def test_a_speedup_that_the_outside_does_not_confirm_is_not_shown(cheat, why):
    verdict = judge(measured(500_000, 250_000, **cheat))
    assert verdict["outcome"] == "not shown"
    assert any(why in each for each in verdict["because"])


def test_what_answering_takes_both_is_not_held_against_it():
    found = measured(500_000, 250_000, idle=0.1)
    for each in found["samples"]:
        each["baseline"]["idle_ns"] = each["candidate"]["idle_ns"]
    assert judge(found)["outcome"] == "faster as claimed"


def waiting_baseline():
    found = measured(500_000, 250_000)
    for each in found["samples"]:
        each["baseline"] = arm(500_000, processor_call_ns=20_000)
    return found


def test_a_baseline_that_waits_may_have_been_slowed_down():
    verdict = judge(waiting_baseline())
    assert verdict["outcome"] == "not shown"
    assert verdict["because"][0].startswith("the baseline waits")


def test_a_baseline_that_others_keep_from_its_processor_does_not_wait():
    found = measured(500_000, 250_000)
    for each in found["samples"]:
        each["baseline"] = arm(500_000, queued_ns=9_000_000)
        each["baseline"]["outside_ns"] = [took + 9_000_000 for took in each["baseline"]["outside_ns"]]
        each["candidate"]["outside_ns"] = [took + 9_000_000 for took in each["candidate"]["outside_ns"]]
    assert judge(found)["outcome"] == "faster as claimed"


def test_a_baseline_that_waits_is_believed_where_a_person_allows_it():
    assert judge({**waiting_baseline(), "allow": ["waiting"]})["outcome"] == "faster as claimed"


def test_inputs_that_never_change_show_no_speedup():
    found = {**measured(500_000, 250_000), "plan": {**PLAN, "remembers": True}}
    assert judge(found)["outcome"] == "not shown"


def test_several_threads_are_not_held_against_it():
    found = {**measured(500_000, 250_000, processor_call_ns=900_000), "threads": 2}
    assert judge(found)["outcome"] == "faster as claimed"


def test_arms_with_different_numbers_of_calls_are_compared_by_the_call():
    found = measured(500_000, 500_000)
    for each in found["samples"]:
        each["calls"] = [CALLS, 2 * CALLS]
        each["candidate"]["batch_ns"] = [2 * took for took in each["candidate"]["batch_ns"]]
    assert judge(found)["speedup"]["estimate"] == pytest.approx(1.0, abs=0.01)


def test_the_same_measurements_give_the_same_verdict_after_a_trip_through_json():
    found = measured(500_000, 391_234, replicates=14, wobble=0.01)
    assert judge(json.loads(json.dumps(found))) == judge(found)


def test_a_first_look_that_decided_stands_whatever_came_after_it():
    found = measured(500_000, 333_333, replicates=24)
    for each in found["samples"][8:]:
        each["candidate"] = arm(500_000)
    verdict = judge(found)
    assert (verdict["outcome"], verdict["replicates"]) == ("faster as claimed", 8)


def different(*failed, **more):
    """Return measurements of two alternatives of which some checks failed."""
    checks = [{"variant": "plain 1", "is_passed": False, "detail": "off", "check": "values", **each} for each in failed]
    return {**measured(2_000_000, 1_000_000), "checks": checks, "threshold": 1.0, **more}


def test_alternatives_with_different_results_are_timed_and_neither_is_wrong():
    verdict = judge(different({}, is_timed_anyway=True))
    assert (verdict["outcome"], verdict["because"]) == ("different results", ["values on plain 1: off"])
    assert verdict["speedup"]["lower"] > 1.9
    assert judge(different({}))["outcome"] == "wrong"


def test_alternatives_that_agree_up_to_rounding_are_judged_by_their_time():
    verdict = judge(different({"numbers": {"is_close": True}}, is_timed_anyway=True))
    assert verdict["outcome"] == "faster as claimed"
    assert judge(different({"numbers": {"is_close": True}}, {"check": "form"}, is_timed_anyway=True))["outcome"] == (
        "different results"
    )


def test_an_alternative_that_does_not_take_the_inputs_is_an_error_and_not_wrong():
    assert judge(different({"check": "runs"}, is_timed_anyway=True, samples=[]))["outcome"] == "error"


def by_the_lab(found, *, kept_ns=0, others=0.0, idle_of_baseline=0):
    """Return the same, with the times that the lab takes from its signal until the reply, by its clock of each arm."""
    for sample in found["samples"]:
        for name in ("baseline", "candidate"):
            times = sample[name]
            times["run_ns"] = [each - BESIDE_NS + 5_000 for each in times["outside_ns"]]
            times["run_processor_ns"] = [each - BESIDE_NS + 5_000 for each in times["processor_ns"]]
            times["empty_run_ns"] = [5_000, 9_000]
            times["kept_processor_ns"] = [kept_ns if name == "candidate" else 0] * 2
            times["other_threads_ns"] = [int(others * each) for each in times["run_processor_ns"]]
        sample["baseline"]["idle_ns"] += idle_of_baseline
    return found


def test_the_clock_of_the_lab_decides_whatever_the_process_says():
    found = by_the_lab(measured(20_000, 10_000, outside_call_ns=20_000, processor_call_ns=20_000))
    assert judge(found)["outcome"] == "not as fast as claimed"


def test_what_a_request_takes_by_itself_does_not_move_the_ratio():
    verdict = judge(by_the_lab(measured(20_000, 10_000, wobble=0)))
    assert verdict["speedup"]["estimate"] == pytest.approx(2, rel=1e-3)


@pytest.mark.parametrize(
    ("cheat", "why"),
    [
        ({"kept_ns": 9_000}, "spent when its results are looked at"),
        ({"others": 0.5}, "that of other threads"),
        ({"idle_of_baseline": 20_000_000}, "the baseline uses 40% of a processor"),
    ],
)
def test_work_beside_the_calls_of_either_arm_shows_no_speedup(cheat, why):
    verdict = judge(by_the_lab(measured(20_000, 10_000), **cheat))
    assert verdict["outcome"] == "not shown"
    assert why in " ".join(verdict["because"])


def test_equal_faults_are_one_reason_with_the_number_of_other_inputs():
    found = measured(20_000, 10_000)
    texts = (
        ("plain 1", "3 of 9 are off, the worst at [1, 2]: 1.5 became -2e-07"),
        ("plain 2", "9 of 9 are off, the worst at [0]: inf became 4"),
    )
    found["checks"] = [
        {"check": "values", "variant": variant, "is_passed": False, "detail": text} for variant, text in texts
    ] + [
        {
            "check": "dtype",
            "variant": "plain 1",
            "is_passed": False,
            "detail": "has dtype float32 in A and float64 in B",
        }
    ]
    assert judge(found)["because"] == [
        "values on plain 1: 3 of 9 are off, the worst at [1, 2]: 1.5 became -2e-07 (and on 1 other input)",
        "dtype on plain 1: has dtype float32 in A and float64 in B",
    ]


@pytest.mark.parametrize(
    ("alone_ns", "outcome"), [((20_000, 10_000), "faster as claimed"), ((20_000, 19_000), "not shown")]
)
def test_what_a_row_of_calls_saves_a_single_call_must_save_too(alone_ns, outcome):
    found = by_the_lab(measured(20_000, 10_000))
    for number, sample in enumerate(found["samples"]):
        for name, each in zip(("baseline", "candidate"), alone_ns, strict=True):
            sample[name]["single_run_ns"] = [each + 400 * (number % 3), each + 9_000]
    verdict = judge(found)
    assert verdict["outcome"] == outcome
    assert ("saves in a row of calls only" in verdict["because"][0]) == (outcome == "not shown")


def test_single_calls_that_scatter_by_more_than_the_saving_are_no_doubt():
    found = by_the_lab(measured(20_000, 10_000))
    for number, sample in enumerate(found["samples"]):
        sample["baseline"]["single_run_ns"] = [90_000 + 30_000 * (-1) ** number]
        sample["candidate"]["single_run_ns"] = [90_000]
    assert judge(found)["outcome"] == "faster as claimed"
