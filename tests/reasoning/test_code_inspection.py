"""The order of the facts of inspections in an answer."""

from dataclasses import replace

import pytest
from briefs import evidence

from esper_agents.domain.request import ParsedRequest, ReportedError
from esper_agents.reasoning.code_inspection import told

FACTS = [
    ("a.py", "`f()` records a graph"),
    ("b.py", "`empty(...)` has n x m x d elements: 1,200 x 40,000 x 200 in float32 is 38.4 GB"),
]


def inspected():
    facts = [
        {"assessment": "should check", "line": 3, "text": text, "path": path, "name": "q", "rule": "", "end_line": 3}
        | {"remedy": "go over `n` in parts"}
        for path, text in FACTS
    ]
    output = {"queries": [{"name": "q", "facts": facts, "claim": "", "state": "open"}], "files": 2}
    return [replace(evidence(output=output), tool="inspect-code")]


@pytest.mark.parametrize("failed", ["35.76 GiB", "35.8 GiB"])
def test_the_tensor_whose_size_could_not_be_allocated_is_the_answer(failed):
    error = ReportedError("torch.OutOfMemoryError", f"CUDA out of memory. Tried to allocate {failed}.")
    assert told(inspected(), ParsedRequest(errors=(error,))) == (
        f"b.py:3 {FACTS[1][1]}: the allocation that failed. To shrink it, go over `n` in parts."
    )


def test_another_size_is_one_fact_of_several():
    error = ReportedError("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert told(inspected(), ParsedRequest(errors=(error,))).startswith("To check: a.py:3")
