"""Tests of products of sizes, and of what the sizes of a request make of them."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

SCORING = (
    "def score(h_idx, weight, n_ent, emb_dim):\n    b_size = h_idx.shape[0]\n"
    "    return weight.view(1, n_ent, emb_dim).expand(b_size, n_ent, emb_dim)\n"
)


def facts(source, *sizes):
    subject = InspectionSubject(("memory",), sizes=sizes)
    return inspect_sources({"a.py": source}, subject, names=["large-tensors"]).results[0].facts


def test_the_sizes_of_the_request_are_multiplied_by_the_names_in_the_code():
    (fact,) = facts(SCORING, "entities=200000", "emb dim=200", "batch size=256")
    assert fact.assessment is Assessment.SHOULD_CHECK
    assert "b_size x n_ent x emb_dim elements: 256 x 200,000 x 200 in float32 is 41 GB" in fact.text


def test_with_one_size_unknown_the_bytes_are_for_each_of_it():
    (fact,) = facts(SCORING, "entities=200000", "emb dim=200")
    assert fact.assessment is Assessment.OPEN
    assert "is 160 MB for each `b_size`" in fact.text


def test_beside_a_tensor_that_fills_a_device_small_and_unknown_ones_are_not_told():
    more = "def other(x, rows, columns, depth):\n    return x.expand(rows, columns, depth)\n"
    assert len(facts(f"{SCORING}\n\n{more}", "entities=200000", "emb dim=200", "batch size=256")) == 1
    assert len(facts(f"{SCORING}\n\n{more}")) == 2


@pytest.mark.parametrize(
    ("source", "is_told"),
    [
        ("def pairs(a, b):\n    return (a.unsqueeze(1) - b.unsqueeze(0)).norm(dim=-1)\n", True),
        ("def pairs(a, b):\n    return a[:, None] * b[None]\n", True),
        ("def pairs(a, b):\n    return a.unsqueeze(1) - b.unsqueeze(1)\n", False),
        ("def pairs(a, b):\n    return a - b\n", False),
    ],
)
def test_arithmetic_of_every_row_with_every_row_is_told(source, is_told):
    assert bool(facts(source)) is is_told


@pytest.mark.parametrize("made", ["x.repeat(b, n, d)", "x.expand(-1, n, -1)", "x.expand(b, n)", "torch.zeros(2, 3, 4)"])
def test_repetitions_sizes_that_stay_and_few_sizes_are_no_product(made):
    assert facts(f"import torch\n\n\ndef grow(x, b, n, d):\n    return {made}\n") == ()
