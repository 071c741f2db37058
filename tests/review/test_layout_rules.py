"""Cases of ESP274, ESP275, ESP278 and ESP279: factors at zero, calibration, contrastive labels, windows."""

from __future__ import annotations

import pytest

ADAPTER = """
import torch
import torch.nn.functional as F
from torch import nn

class Adapter(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.a = {a}
        self.b = {b}
        {then}

    def forward(self, x):
        return self.base(x) + 2.0 * ({product})
"""
ZERO_A, ZERO_B = "nn.Parameter(torch.zeros(rank, width))", "nn.Parameter(torch.zeros(width, rank))"
EMPTY = "nn.Parameter(torch.empty(rank, width))"
LINEAR = "nn.Linear(width, rank, bias=False)"


@pytest.mark.parametrize(
    ("a", "b", "then", "product"),
    [
        (ZERO_A, ZERO_B, "pass", "x @ self.a.t() @ self.b.t()"),
        (ZERO_A, ZERO_B, "pass", "x @ (self.b @ self.a).T"),
        (ZERO_A, ZERO_B, "pass", "F.linear(F.linear(x, self.a), self.b)"),
        (
            EMPTY,
            EMPTY,
            "nn.init.zeros_(self.a)\n        nn.init.constant_(self.b, 0.0)",
            "torch.matmul(self.b, self.a)",
        ),
        (LINEAR, LINEAR, "nn.init.zeros_(self.a.weight)\n        self.b.weight.data.zero_()", "self.b(self.a(x))"),
    ],
)
def test_two_factors_that_start_at_zero_are_reported(a, b, then, product, found):
    assert len(found("ESP274", ADAPTER.format(a=a, b=b, then=then, product=product))) == 1


@pytest.mark.parametrize(
    ("a", "b", "then", "product"),
    [
        ("nn.Parameter(torch.randn(rank, width))", ZERO_B, "pass", "x @ self.a.t() @ self.b.t()"),
        (ZERO_A, ZERO_B, "nn.init.kaiming_uniform_(self.a)", "x @ self.a.t() @ self.b.t()"),
        (ZERO_A, ZERO_B, "self.a.data.normal_()", "x @ self.a.t() @ self.b.t()"),
        (ZERO_A, ZERO_B, "pass", "x @ self.a.t() + x @ self.b"),
        (LINEAR, LINEAR, "nn.init.zeros_(self.b.weight)", "self.b(self.a(x))"),
        (ZERO_A, ZERO_B, "init_weights(self.a)", "x @ self.a.t() @ self.b.t()"),
    ],
)
def test_one_factor_at_zero_and_sums_are_right(a, b, then, product, found):
    assert found("ESP274", ADAPTER.format(a=a, b=b, then=then, product=product)) == []


QUANTISATION = """
import torch
from torch.ao import quantization as tq
from torch.ao.quantization import convert, prepare
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

def quantise(model, loader, mapping, example):
    model.eval()
    {body}
"""


@pytest.mark.parametrize(
    "body",
    [
        "ready = prepare(model)\n    return convert(ready)",
        "return convert(prepare(model))",
        "tq.prepare(model, inplace=True)\n    tq.convert(model, inplace=True)",
        "ready = prepare_fx(model, mapping, example)\n    ready.eval()\n    return convert_fx(ready)",
    ],
)
def test_a_conversion_without_data_is_reported(body, found):
    assert len(found("ESP275", QUANTISATION.format(body=body))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "ready = prepare(model)\n    for x, _ in loader:\n        ready(x)\n    return convert(ready)",
        "tq.prepare(model, inplace=True)\n    calibrate(model, loader)\n    tq.convert(model, inplace=True)",
        "ready = prepare_fx(model, mapping, example)\n    torch.vmap(ready)(example)\n    return convert_fx(ready)",
        "ready = tq.prepare_qat(model)\n    return convert(ready)",
        "return convert(model)",
    ],
)
def test_a_calibrated_model_is_right(body, found):
    assert found("ESP275", QUANTISATION.format(body=body)) == []


CONTRAST = """
import torch
import torch.nn.functional as F
from torch import nn

def loss(q, k, queue, temperature):
    criterion = nn.CrossEntropyLoss()
    positive = {positive}
    negatives = q @ queue
    logits = {logits}
    logits /= temperature
    labels = {labels}
    return criterion(logits, labels)
"""
ZEROS = "torch.zeros(len(q), dtype=torch.long)"


@pytest.mark.parametrize(
    "positive",
    ["(q * k).sum(1, keepdim=True)", 'torch.einsum("nc,nc->n", q, k).unsqueeze(-1)', "(q * k).sum(-1)[:, None]"],
)
@pytest.mark.parametrize(
    "logits", ["torch.cat([negatives, positive], dim=1)", "torch.cat((negatives, positive), -1) / 0.07"]
)
@pytest.mark.parametrize("labels", [ZEROS, "torch.zeros(len(q)).long().cuda()"])
def test_labels_of_zeros_before_a_positive_column_that_stands_behind_are_reported(positive, logits, labels, found):
    source = CONTRAST.format(positive=positive, logits=logits, labels=labels)
    assert found("ESP278", source) == ["return criterion(logits, labels)"]


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        ("torch.cat([positive, negatives], dim=1)", ZEROS),
        ("torch.cat([negatives, positive], dim=1)", "torch.full((len(q),), negatives.size(1))"),
        ("torch.cat([negatives, positive], dim=0)", ZEROS),
        ("negatives", ZEROS),
    ],
)
def test_labels_of_the_positive_column_are_right(logits, labels, found):
    source = CONTRAST.format(positive="(q * k).sum(1, keepdim=True)", logits=logits, labels=labels)
    assert found("ESP278", source) == []


WINDOWS = """
class Windows:
    def __getitem__(self, i):
        n = self.n
        x = {window}
        y = {target}
        return {result}
"""


@pytest.mark.parametrize(
    ("window", "target", "result"),
    [
        ("self.series[i : i + self.n + 1]", "self.series[i + self.n]", "x, y"),
        ("self.series[i : 1 + i + n]", "self.series[i + n]", "x.unsqueeze(-1), y"),
        ("self.series[i : i + n]", "self.series[i + n - 1]", "(x, y)"),
        ("self.data[i - n : i + 1]", "self.data[i + 0]", "{'x': x, 'y': y}"),
        ("self.data[i : i + n]", "self.data[i + n - 1, 0]", "x, y"),
    ],
)
def test_a_window_that_ends_with_its_target_is_reported(window, target, result, found):
    assert found("ESP279", WINDOWS.format(window=window, target=target, result=result)) == [f"x = {window}"]


@pytest.mark.parametrize(
    ("window", "target", "result"),
    [
        ("self.series[i : i + n]", "self.series[i + n]", "x, y"),
        ("self.series[i : i + n + 1]", "self.labels[i + n]", "x, y"),
        ("self.series[i : i + n]", "self.series[i + 1 : i + n + 1]", "x, y"),
        ("self.data[i : i + n, 1:]", "self.data[i + n - 1, 0]", "x, y"),
        ("self.data[i : i + n]", "self.data[i + n - 1]", "x - y"),
    ],
)
def test_a_window_before_its_target_is_right(window, target, result, found):
    assert found("ESP279", WINDOWS.format(window=window, target=target, result=result)) == []
