"""Tests of the facts about NaN and infinite values."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources


def facts(text):
    done = inspect_sources({"a.py": text}, InspectionSubject(("NaN or Inf",)), names=["nonfinite-values"])
    assert done.results[0].problem == ""
    return done.results[0].facts


def assessments(expression, arguments="x, y, mask, eps"):
    text = f"import torch\nimport torch.nn.functional as F\n\n\ndef loss({arguments}):\n    return {expression}\n"
    return {fact.assessment for fact in facts(text)}


@pytest.mark.parametrize(
    ("expression", "assessment"),
    [
        ("torch.log(x + 1e-8)", Assessment.FINE),
        ("torch.log(x.clamp(min=eps)).mean()", Assessment.FINE),
        ("torch.sqrt((x - y).square().sum() + eps)", Assessment.FINE),
        ("x.clamp(min=0).sqrt()", Assessment.SHOULD_CHECK),
        ("torch.sqrt(torch.clamp(x - y, min=0.0))", Assessment.SHOULD_CHECK),
        ("x.clamp(min=1e-6).sqrt()", Assessment.FINE),
        ("torch.acos(x)", Assessment.SHOULD_CHECK),
        ("torch.acos(x.clamp(-1, 1))", Assessment.SHOULD_CHECK),
        ("torch.acos(x.clamp(-1 + eps, 1 - eps))", Assessment.FINE),
        ("torch.exp(x)", Assessment.OPEN),
        ("torch.exp(-x)", Assessment.OPEN),
        ("torch.exp(-x.square())", Assessment.FINE),
        ("torch.exp(x - x.max())", Assessment.FINE),
        ("torch.where(x > 0, torch.sqrt(x), y)", Assessment.SHOULD_CHECK),
        ("torch.where(x > 0, y / x, y)", Assessment.SHOULD_CHECK),
        ("F.softmax(x.masked_fill(mask, float('-inf')), -1)", Assessment.SHOULD_CHECK),
        ("F.softmax(x.masked_fill(torch.triu(mask, 1), float('-inf')), -1)", Assessment.FINE),
    ],
)
def test_an_operation_is_judged_by_what_guards_it(expression, assessment):
    assert assessment in assessments(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "torch.where(x > 0, torch.sqrt(x + eps), y)",
        "torch.where(mask, torch.sqrt(x), y)",
        "F.softmax(x.masked_fill(mask, -1e4), -1)",
        "torch.log(torch.tensor(2.0))",
    ],
)
def test_what_is_safe_is_nothing_to_change(expression):
    assert not assessments(expression) & {Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK}


def test_a_sigmoid_does_not_guard_a_logarithm():
    assert Assessment.FINE not in assessments("torch.log(torch.sigmoid(x))")


STEP = """\
import torch


def train(model, loader):
    optimizer = torch.optim.Adam(model.parameters(), lr={rate})
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        {clip}
        optimizer.step()
"""


def test_gradients_that_nothing_bounds_and_a_high_rate_are_told():
    told = [fact.line for fact in facts(STEP.format(rate=0.1, clip="pass"))]
    assert told == [5, 11]
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    assert [fact.assessment for fact in facts(STEP.format(rate=0.001, clip=clip))] == [Assessment.FINE]
