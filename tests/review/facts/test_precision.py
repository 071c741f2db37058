"""Tests of the queries about mixed precision: autocast, the scaler and what float16 cannot hold."""

from __future__ import annotations

import pytest

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

SUBJECT = InspectionSubject(("mixed precision",))
MUST, SHOULD, FINE = Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK, Assessment.FINE
STEP = """import torch
from torch import nn
import torch.nn.functional as F


def fit(model, loader, optimizer, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.{kind}):
            loss = {loss}
        {rest}
"""
NET = "import torch\nfrom torch import nn\n\n\n"
NET += "class Net(nn.Module):\n    def forward(self, x, mask):\n        x = x.half()\n"


def found(query, source, *assessments):
    done = inspect_sources({"train.py": source}, SUBJECT, names=[query])
    assert not done.results[0].problem
    return [fact for fact in done.results[0].facts if fact.assessment in assessments]


def step(rest, kind="float16", loss="model(x)"):
    return STEP.format(kind=kind, loss=loss, rest=rest.replace("\n", "\n        "))


SCALED = "scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()"


def test_float16_without_a_scaler_must_change_and_bfloat16_needs_none():
    plain = "loss.backward()\noptimizer.step()"
    assert [each.line for each in found("loss-scaling", step(plain), MUST)] == [11]
    assert not found("loss-scaling", step(plain, "bfloat16"), MUST, SHOULD)


def test_a_scaler_that_steps_and_updates_is_fine():
    source = step(SCALED) + "\n\nscaler = torch.amp.GradScaler('cuda')\n"
    assert not found("loss-scaling", source, MUST, SHOULD)
    assert found("loss-scaling", source, FINE)


@pytest.mark.parametrize(
    "rest",
    [
        "scaler.scale(loss).backward()\nscaler.step(optimizer)",
        "scaler.scale(loss).backward()\noptimizer.step()",
        SCALED.replace("\nscaler.step", "\nnn.utils.clip_grad_norm_(model.parameters(), 1)\nscaler.step"),
    ],
)
def test_a_scaler_in_the_wrong_order_must_change(rest):
    assert found("loss-scaling", step(rest) + "\n\nscaler = torch.amp.GradScaler('cuda')\n", MUST)


def test_a_loss_of_probabilities_under_autocast_must_change():
    source = step(SCALED, loss="F.binary_cross_entropy(model(x), y)") + "\n\nscaler = torch.amp.GradScaler()\n"
    assert [each.line for each in found("loss-scaling", source, MUST)] == [10]
    logits = source.replace("binary_cross_entropy", "binary_cross_entropy_with_logits")
    assert not found("loss-scaling", logits, MUST, SHOULD)


def test_a_step_in_float32_is_told_where_autocast_goes():
    source = "def fit(model, loader, optimizer):\n    for x in loader:\n        model(x).backward()\n"
    assert "autocast" in found("loss-scaling", source, SHOULD)[0].remedy
    assert not found("loss-scaling", source, MUST)


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("return (x @ x).masked_fill(mask, -1e9)", 1),
        ("return (x @ x).masked_fill(mask, -1e4)", 0),
        ('return (x @ x).masked_fill(mask, float("-inf"))', 0),
        ("return (x @ x).masked_fill(mask, torch.finfo(x.dtype).min)", 0),
        ("return x / (x.sum() + 1e-8)", 1),
        ("return x / (x.sum() + 1e-6)", 0),
        ("return nn.functional.layer_norm(x, (8,), eps=1e-8)", 0),
    ],
)
def test_constants_that_float16_cannot_hold_are_reported(line, count):
    assert len(found("half-values", f"{NET}        {line}\n", MUST, SHOULD)) == count


def test_weights_in_float16_under_an_optimizer_must_change():
    train = "import torch\n\n\ndef fit(model, x):\n    {}\n"
    train += "    optimizer = torch.optim.Adam(model.parameters())\n    model(x).backward()\n"
    assert found("half-values", train.format("model.half()"), MUST)
    assert found("half-values", train.format("model.bfloat16()"), SHOULD)
    assert not found("half-values", train.format("model.float()"), MUST, SHOULD)
    assert not found("half-values", train.format("teacher.half()"), MUST, SHOULD)
