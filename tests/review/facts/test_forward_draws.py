"""Draws of random numbers in a forward pass: which of them differ between two calls in evaluation mode."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import InspectionSubject
from esper_agents.review.inspection import inspect_sources

MODULE = """
import random
import torch
from torch import nn


class Pairs(nn.Module):
    def forward(self, x, noise=None):
        {lines}
        return self.pair(x)

    def pair(self, x):
        return {paired}
"""


def places(lines: str, paired: str = "x") -> list[int]:
    report = inspect_sources(
        {"pairs.py": MODULE.format(lines=lines, paired=paired)}, InspectionSubject(topics=("reproducibility",))
    )
    return [fact.line for result in report.results if result.name == "forward-draws" for fact in result.facts]


@pytest.mark.parametrize(
    "lines",
    [
        "x = x[torch.randperm(len(x))]",
        "x = x + torch.randn_like(x)",
        "x = x * random.random()",
        "x = x.bernoulli_(0.5)",
    ],
)
def test_a_draw_that_no_mode_decides_is_stated(lines):
    assert places(lines) == [9]


def test_a_draw_in_a_method_that_forward_calls_is_stated():
    assert places("pass", "x[torch.randperm(len(x))]") == [13]


@pytest.mark.parametrize(
    "lines",
    [
        "if self.training: x = x + torch.randn_like(x)",
        "if noise is None: noise = torch.randn_like(x)",
        "x = x + torch.randn(3, generator=self.generator)",
        "torch.manual_seed(0)",
        "x = torch.relu(x)",
    ],
)
def test_draws_that_mode_or_caller_decide_are_not_stated(lines):
    assert places(lines) == []
