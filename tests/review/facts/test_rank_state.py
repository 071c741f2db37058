"""Tests of the facts about state that differs between ranks."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

CODES = """\
import torch
from torch import nn


class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("rows", torch.zeros(8, 8))
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        flat = x.flatten(1)
        self.update(flat)
        self.seen += 1
        return self.norm(x) - self.mean

    def update(self, values):
        self.mean = 0.9 * self.mean + 0.1 * values.mean(0)
        self.rows[: values.shape[0]] = values
        self.rows.mul_(values.shape[0])
"""

WRAPPED = "\n\nnet = nn.parallel.DistributedDataParallel(Codes())\n"


def facts(source):
    done = inspect_sources({"net.py": source}, InspectionSubject(("distributed training",)), names=["rank-state"])
    assert not done.results[0].problem
    return {(fact.line, fact.assessment): fact.text for fact in done.results[0].facts}


def test_buffers_from_the_batch_are_told_and_counters_are_not():
    told = facts(CODES)
    assert set(told) == {(20, Assessment.SHOULD_CHECK), (21, Assessment.SHOULD_CHECK)}
    told = facts(f"{CODES}{WRAPPED}")
    assert set(told) == {(20, Assessment.SHOULD_CHECK), (21, Assessment.SHOULD_CHECK), (11, Assessment.SHOULD_CHECK)}
    assert "DDP replaces it by that of rank 0" in told[20, Assessment.SHOULD_CHECK]
    kept = facts(f"{CODES}\n\nnet = nn.parallel.DistributedDataParallel(Codes(), broadcast_buffers=False)\n")
    assert "ranks hold different values" in kept[20, Assessment.SHOULD_CHECK]


@pytest.mark.parametrize(
    "change",
    [
        ("flat = x.flatten(1)", "flat = combined(x)"),
        ("flat = x.flatten(1)", "flat = x.flatten(1)\n        torch.distributed.all_reduce(flat)"),
    ],
    ids=["in a helper", "in forward"],
)
def test_state_that_is_combined_over_ranks_is_not_told(change):
    helper = "\n\ndef combined(x):\n    torch.distributed.all_reduce(x)\n    return x\n"
    told = facts(CODES.replace(*change) + helper)
    assert not any("the buffer" in text for text in told.values())


def test_converted_batch_norms_are_not_told():
    assert any("BatchNorm" in text for text in facts(f"{CODES}{WRAPPED}").values())
    told = facts(f"{CODES}{WRAPPED}net = nn.SyncBatchNorm.convert_sync_batchnorm(net)\n")
    assert not any("BatchNorm" in text for text in told.values())
