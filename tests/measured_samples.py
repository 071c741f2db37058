"""Evidence with outputs in the form that the measuring tools give them."""

from __future__ import annotations

from dataclasses import replace

from certificate_samples import evidence, full

COMPARED = {
    "outcome": "not shown",
    "threshold": "1.15",
    "verdict": {
        "because": ["1.15x lies between 1.147x and 1.22x"],
        "outcome": "not shown",
        "replicates": 14,
        "speedup": {"confidence": "0.994751", "estimate": "1.19611", "lower": "1.14703", "upper": "1.22025"},
    },
    "result": {"beside": {"baseline": {"peak_bytes": 196608}, "candidate": {"peak_bytes": 98304}}},
}
HELD = {
    "status": "growing",
    "result": {
        "headline": "memory grows by 64 KiB with each step",
        "leak": {"bytes_per_step": 65536, "live_bytes": [65536 * step for step in range(2, 10)]},
        "peak": {
            "peak_bytes": 440512,
            "phases": [
                {"name": "forward", "step": 1, "peak_bytes": 95932, "end_bytes": 95616},
                {"name": "backward", "step": 1, "peak_bytes": 163928, "end_bytes": 155732},
                "and 4 more",
            ],
            "split_bytes": {"activations": 4, "parameters": 76840, "optimizer_state": 153696},
        },
    },
}
WATCHED = {
    "status": "nan",
    "result": {
        "headline": "Inf from log at net.py:11, log-of-zero",
        "first": {"holds": "inf", "step": 3},
        "history": [
            {"step": 0, "largest_gradient": "0.125", "largest_weight": "0.1"},
            {"step": 1, "largest_gradient": "12.5", "largest_weight": "0.2"},
            {"step": 2, "largest_gradient": "131072.0", "largest_weight": "0.3"},
            {"step": 3, "largest_gradient": "nan", "largest_weight": "0.4"},
        ],
    },
}
PROFILED = {
    "status": "cpu-compute",
    "result": {
        "analysis": {
            "shares": {"cpu-compute": "0.907642", "dispatch-and-python": "0.0923581", "gpu": "0.0"},
            "lines": [{"file": "net.py", "line": 12, "share": "0.920602"}],
        }
    },
}
EXPLAINED = {
    "status": "breaks",
    "result": {
        "headline": "1 break cut it into 2 graphs that run in a call",
        "calls": [
            {"what": "the first inputs", "graphs_run": 2, "breaks": 1, "recompiles": 0},
            {"what": "leading dimension 9", "graphs_run": 2, "breaks": 1, "recompiles": 2},
        ],
    },
}
OUTPUTS = {
    "torch-compare": COMPARED,
    "torch-memory": HELD,
    "torch-nan": WATCHED,
    "torch-profile": PROFILED,
    "torch-explain": EXPLAINED,
}


def measured(tool, output=None, number=20):
    """Return evidence of a measuring tool."""
    return evidence(number, tool=tool, output=OUTPUTS[tool] if output is None else output, summary=f"{tool} ran")


def full_and_measured():
    """Return a certificate with something in every section, measurements of every sort among it."""
    made = full()
    more = tuple(measured(tool, number=20 + at) for at, tool in enumerate(OUTPUTS))
    return replace(made, evidence=(*made.evidence, *more))
