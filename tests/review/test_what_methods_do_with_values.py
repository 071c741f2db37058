"""ESP301, ESP303 and ESP305 where a method keeps or reads what a step hands it, and where a loop evaluates."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.review.conftest import reviewed

METER = """
from collections import defaultdict
import torch.nn.functional as F

class Log:
    def __init__(self):
        self.sums, self.all, self.total = defaultdict(float), defaultdict(list), 0.0

{method}

def train(net, loader, optimizer):
    log, step = Log(), 0
    for x, y in loader:
        out = net(x)
        fit = F.mse_loss(out, y)
        size = out.abs().mean()
        loss = fit + 0.1 * size
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.add({given})
"""


def with_meter(method, given):
    return METER.format(method=indent(dedent(method).strip(), "    "), given=given)


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("def add(self, **losses):\n    for k, v in losses.items():\n        self.sums[k] += v", "fit=fit, size=size"),
        ("def add(self, losses):\n    for k in losses:\n        self.sums[k] += losses[k]", '{"fit": fit}'),
        ("def add(self, losses):\n    for k, v in losses.items():\n        self.all[k].append(v)", "dict(fit=fit)"),
        ("def add(self, *losses):\n    for v in losses:\n        self.total += v", "fit, size"),
        ("def add(self, loss):\n    self.total += loss", "loss"),
    ],
)
def test_a_meter_that_keeps_graphs_is_found_however_it_is_handed_losses(found, method, given):
    assert found("ESP301", with_meter(method, given)) == [f"log.add({given})"]


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("def add(self, loss):\n    self.total += loss.detach()", "loss"),
        ("def add(self, **losses):\n    for k, v in losses.items():\n        self.sums[k] += v.item()", "fit=fit"),
        (
            "def add(self, **losses):\n    for v in losses.values():\n        v = v.detach()\n        self.total += v",
            "fit=fit",
        ),
    ],
)
def test_a_meter_that_lets_go_of_graphs_is_left_alone(found, method, given):
    assert found("ESP301", with_meter(method, given)) == []


EVALUATING = """
import torch
import torch.nn.functional as F

def embed(model, loader):
    model.eval()
    kept, by_step = [], {{}}
    for step, (x, names) in enumerate(loader):
        out = model(x.cuda())
        {line}
    return kept
"""


@pytest.mark.parametrize(
    "line",
    [
        "kept.append(out)",
        "kept.append(F.normalize(out, dim=1))",
        "kept.append(out.cpu())",
        "kept += [out.softmax(-1)]",
        "by_step[step] = F.normalize(model(x), dim=-1)",
    ],
)
def test_outputs_gathered_in_an_evaluation_with_gradients_are_advice(line):
    claims = reviewed(EVALUATING.format(line=line), "ESP303").claims
    assert [claim.severity.value for claim in claims] == ["suggestion"]


@pytest.mark.parametrize("line", ["kept.append(out.detach())", "kept.append(out.argmax(1))", "kept.append(names)"])
def test_what_carries_no_graph_is_left_alone_in_an_evaluation(line):
    assert reviewed(EVALUATING.format(line=line), "ESP303").claims == ()


STEP = """
import math
import sys
import torch.nn.functional as F

def train(model, loader, optimizer, device):
    for x, y in loader:
        loss = F.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{body}
"""


@pytest.mark.parametrize(
    ("body", "severities"),
    [
        ("n = loss.item()\nif not math.isfinite(n):\n    sys.exit(1)", ["suggestion"]),
        ("if math.isnan(loss.item()):\n    raise RuntimeError", ["suggestion"]),
        ("n = float(loss)\nif n != n or math.isnan(n):\n    raise RuntimeError", ["suggestion"]),
        ("n = loss.item()\nif n < 0.1:\n    break", []),
    ],
)
def test_a_number_that_is_fetched_for_a_test_for_nan_is_a_suggestion(body, severities):
    claims = reviewed(STEP.format(body=indent(body, " " * 8)), "ESP305").claims
    assert [claim.severity.value for claim in claims] == severities


PICKED = """
def step(model, batch, optimizer):
    loss = criterion(model(batch), batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return {{"loss": {given}, "size": len(batch)}}

def fit(model, loader, optimizer):
    kept = []
    for batch in loader:
        loss = step(model, batch, optimizer)["{key}"]
        kept.append(loss)
    return kept
"""


@pytest.mark.parametrize(
    ("given", "key", "count"), [("loss", "loss", 1), ("loss", "size", 0), ("loss.detach()", "loss", 0)]
)
def test_a_loss_that_is_picked_from_what_a_step_hands_back_is_followed(found, given, key, count):
    assert len(found("ESP301", PICKED.format(given=given, key=key))) == count
