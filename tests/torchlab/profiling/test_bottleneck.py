"""What follows from a profile, with the measurements given: each bottleneck from the numbers that make it one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from esper_agents.domain.codec import parsed, plain
from esper_agents.torchlab.profiling.advice import advice_on, most_speedup
from esper_agents.torchlab.profiling.bottleneck import analyse
from esper_agents.torchlab.profiling.result import Bottleneck, ProfileMeasurements

CALL_NS = 1_000_000
# A machine that computes 100 FLOP and moves 10 bytes each nanosecond.
CEILINGS = {
    "matrix": [{"dtype": "float32", "flops_per_s": [10**9, 10**11]}, {"dtype": "bfloat16", "flops_per_s": [10**9]}],
    "stream": [
        {"touched_bytes": 1 << 20, "bytes_per_s": [2 * 10**10]},
        {"touched_bytes": 1 << 27, "bytes_per_s": [10**10]},
    ],
    "dispatch_ns": [1_500, 1_000],
    "fresh_page_ns": [9_000, 2_100, 800],
    "known_page_ns": [100, 50, 300],
}


def row(name: str, self_ns: int, **more: Any) -> dict[str, Any]:
    return {
        "name": f"aten::{name}",
        "phase": "forward",
        "file": "a.py",
        "line": 7,
        "function": "step",
        "module": "",
        "shapes": "",
        "dtype": "float32",
        "count": 1,
        "events": 0,
        "faults": 0,
        "self_ns": self_ns,
        **more,
    }


def measured(*rows: dict[str, Any], **more: Any) -> ProfileMeasurements:
    one = {"calls": 10, "wall_ns": 10 * CALL_NS, "thread_ns": 10 * CALL_NS, "process_ns": 10 * CALL_NS, "queued_ns": 0}
    counts = {"minor_faults": 0, "major_faults": 0, "voluntary_switches": 0, "read_calls": 0}
    call = dict.fromkeys(("operation_ns", "input_ns", "backward_ns", "optimizer_ns", "waiting_ns"), 0)
    found = {
        "kind": "function",
        "threads": 1,
        "mutates_inputs": False,
        "call_ns": CALL_NS,
        "missing": [],
        "witnesses": [],
        "device": "cpu",
        "train": False,
        "is_training_mode": None,
        "first_call_ns": 5 * CALL_NS,
        "inputs_ns": [1_000],
        "rounds": [{**one, **counts, **more.pop("round", {})}] * 3,
        "ceilings": CEILINGS,
        "profiled": {
            "calls": [{"wall_ns": CALL_NS, "thread_ns": CALL_NS, "events": 10, **call, **more.pop("call", {})}],
            "is_compiled": False,
            "empty_ns": 500,
        },
        "operations": list(rows),
        "python": {
            "calls": 1,
            "total_ns": CALL_NS,
            "python_calls": 12,
            "input_ns": 0,
            "waits": [],
            "functions": [
                {
                    "file": "a.py",
                    "line": 5,
                    "name": "step",
                    "calls": 1,
                    "loads": False,
                    "own_ns": CALL_NS,
                    "total_ns": CALL_NS,
                }
            ],
        },
        "stacks": None,
        "waits": [],
        "memory": None,
        **more,
    }
    return parsed(ProfileMeasurements, found)


def waiting(**counts: int) -> dict[str, Any]:
    """A call that takes three times its processor time, because it waits."""
    return {"round": {"wall_ns": 30 * CALL_NS, "voluntary_switches": 10, **counts}}


CASES = [
    (Bottleneck.COMPUTE, measured(row("mm", 900_000, flops=80_000_000, moved_bytes=1_000))),
    (Bottleneck.COMPUTE, measured(row("tanh", 900_000, moved_bytes=1_000_000))),
    (Bottleneck.BANDWIDTH, measured(row("add", 900_000, moved_bytes=8_000_000))),
    (Bottleneck.BANDWIDTH, measured(row("copy_", 900_000, moved_bytes=100_000))),
    (Bottleneck.BANDWIDTH, measured(row("mm", 900_000, flops=1_000_000, moved_bytes=8_000_000))),
    (Bottleneck.OVERHEAD, measured(row("add", 600_000, count=1_000, moved_bytes=16_000))),
    (Bottleneck.OVERHEAD, measured()),
    (
        Bottleneck.ALLOCATION,
        measured(row("add", 900_000, faults=400, moved_bytes=8_000_000), round={"minor_faults": 4_000}),
    ),
    (Bottleneck.ALLOCATION, measured(row("tanh", 100_000), round={"minor_faults": 4_000})),
    (Bottleneck.INPUT, measured(row("mm", 100_000, flops=8_000_000), call={"input_ns": 700_000})),
    (Bottleneck.INPUT, measured(row("mm", 900_000, flops=8_000_000), **waiting(read_calls=20))),
    (Bottleneck.SYNCHRONISATION, measured(row("mm", 900_000, flops=8_000_000), **waiting())),
    (Bottleneck.GPU, measured(row("mm", 50_000, device_ns=900_000, flops=80_000_000), device="cuda")),
]


@pytest.mark.parametrize(("bottleneck", "given"), CASES)
def test_each_bottleneck_follows_from_the_numbers_that_make_it_one(bottleneck, given):
    analysis = analyse(given)
    assert (analysis.bottleneck, analysis.is_clear) == (bottleneck, True)
    assert sum(analysis.shares.values()) == pytest.approx(1, abs=1e-5)
    assert min(analysis.shares.values()) >= 0


@pytest.mark.parametrize(("bottleneck", "given"), CASES)
def test_every_bottleneck_has_something_to_change(bottleneck, given):
    first = advice_on(given, analyse(given))[0]
    assert first.about == bottleneck
    assert first.problem
    assert first.remedy


def test_the_same_measurements_give_the_same_answer_after_they_were_written_and_read():
    given = CASES[0][1]
    again = parsed(ProfileMeasurements, json.loads(json.dumps(plain(given))))
    assert plain(analyse(again)) == plain(analyse(given))


def test_a_moment_in_which_others_had_the_processor_is_no_waiting():
    busy = {"wall_ns": 30 * CALL_NS, "queued_ns": 20 * CALL_NS, "voluntary_switches": 10}
    analysis = analyse(measured(row("mm", 900_000, flops=80_000_000), round=busy))
    assert (analysis.bottleneck, analysis.call.waiting_ns) == (Bottleneck.COMPUTE, 0)


def test_what_the_profiler_adds_to_small_operations_is_taken_off():
    # 200 operations of 2 us, of which 500 ns are what an operation on nothing takes in a profile.
    (judged,) = analyse(measured(row("add", 400_000, count=200))).operations
    assert judged.work_ns == 400_000 - 200 * 500


def test_ceilings_are_the_best_of_all_samples():
    assert plain(analyse(measured()).ceilings) == {
        "flops_per_s": {"float32": 10**11, "bfloat16": 10**9},
        "bytes_per_s": [
            {"touched_bytes": 1 << 20, "bytes_per_s": 2 * 10**10},
            {"touched_bytes": 1 << 27, "bytes_per_s": 10**10},
        ],
        "dispatch_ns": 1_000,
        "fault_ns": 2_000,
    }


def test_the_share_of_a_ceiling_is_of_the_one_for_its_dtype_and_size():
    small, large = (
        analyse(measured(row("add", 1_000_500, moved_bytes=size))).operations[0] for size in (1 << 20, 1 << 21)
    )
    assert small.stream_ceiling_share == pytest.approx((1 << 20) / (20 * 1_000_000), rel=1e-4)
    assert large.stream_ceiling_share == pytest.approx((1 << 21) / (10 * 1_000_000), rel=1e-4)
    (product,) = analyse(measured(row("mm", 1_000_500, flops=500_000, dtype="bfloat16"))).operations
    assert product.product_ceiling_share == pytest.approx(0.5)


def test_work_that_two_kinds_share_alike_is_not_clear_and_says_so():
    given = measured(row("mm", 500_500, flops=50_000_000), row("copy_", 480_500, moved_bytes=4_000_000, line=9))
    analysis = analyse(given)
    assert not analysis.is_clear
    assert "unclear" in {each.about for each in advice_on(given, analysis)}


def test_operations_of_one_line_stand_together_with_all_their_modules():
    twice = [row("mm", 300_000, flops=10_000_000, module=f"Net.{number}") for number in range(2)]
    (together,) = analyse(measured(*twice)).operations
    assert (together.count, together.flops, together.modules) == (2, 20_000_000, ("Net.0", "Net.1"))


def test_a_dtype_that_is_slower_here_than_float32_is_named():
    given = measured(row("mm", 900_000, flops=900_000, dtype="bfloat16"))
    assert "bfloat16" in " ".join(each.problem for each in advice_on(given, analyse(given)) if each.about == "dtype")


def test_the_most_that_can_be_won_is_what_the_bottleneck_takes():
    assert most_speedup(0.75) == pytest.approx(4)
