"""Cases of ESP114: tensors that a backward needs and that are changed in place before it."""

from __future__ import annotations

import pytest

from esper_agents.review.model import saved_tensors

MODULE = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self, dim, mask):
            super().__init__()
            self.linear, self.norm = nn.Linear(dim, dim), nn.LayerNorm(dim)
            self.bn, self.relu, self.act = nn.BatchNorm1d(dim), nn.ReLU(), nn.ReLU(inplace=True)
            self.mask = mask

        def weights(self, x):
            return torch.softmax(self.linear(x), dim=-1)

        def forward(self, x, skip):
            {lines}
            return h
    """


@pytest.mark.parametrize(
    ("lines", "reported"),
    [
        ("h = torch.sigmoid(self.linear(x))\n            h *= self.mask", "h *= self.mask"),
        ("h = self.linear(x).exp()\n            h[self.mask] = 0", "h[self.mask] = 0"),
        ("h = F.softmax(self.linear(x), -1)\n            h.masked_fill_(self.mask, 0)", "h.masked_fill_(self.mask, 0)"),
        ("h = self.relu(self.linear(x))\n            h += skip", "h += skip"),
        ("h = self.linear(x)\n            h += self.linear(self.norm(h))", "h += self.linear(self.norm(h))"),
        ("h = self.weights(x)\n            h.clamp_(min=1e-3)", "h.clamp_(min=1e-3)"),
        ("g = self.linear(x)\n            h = g * self.linear(skip)\n            g += 1", "g += 1"),
        ("h = self.linear(x).tanh()\n            v = h.view(-1)\n            v.mul_(2)", "v.mul_(2)"),
        ("y = self.linear(x)\n            h = self.linear(y)\n            y[0] = 0", "y[0] = 0"),
    ],
)
def test_a_write_to_what_an_operator_keeps_is_reported(found, lines, reported):
    assert found("ESP114", MODULE.format(lines=lines)) == [reported]


@pytest.mark.parametrize(
    "lines",
    [
        "h = self.linear(x)\n            h += skip",
        "h = self.act(self.bn(self.linear(x)))\n            h = self.bn(self.linear(h))\n            h += x",
        "h = torch.sigmoid(self.linear(x))\n            h = h * self.mask\n            h += 1",
        "h = torch.sigmoid(self.linear(x)).clone()\n            h *= self.mask",
        "h = self.linear(x) + skip\n            h[self.mask] = 0",
        "h = self.linear(x)\n            y = h * self.mask\n            h += y",
        "with torch.no_grad(): g = torch.sigmoid(self.linear(x))\n            g *= 2\n            h = self.linear(x)",
        "h = torch.zeros(3)\n            for i in range(3): h[i] = self.linear(x).exp().sum()",
        "h = self.linear(x)\n            if skip is None: h = h.sigmoid()\n            else: h += skip",
    ],
)
def test_other_writes_are_not_reported(found, lines):
    assert found("ESP114", MODULE.format(lines=lines)) == []


def test_a_write_after_the_backward_is_not_reported(found):
    source = """
    import torch
    from torch import nn

    model = nn.Linear(8, 4)
    for x, y in loader:
        scores = model(x).sigmoid()
        {first}
        nn.functional.binary_cross_entropy(scores, y).backward()
        {then}
    """
    assert found("ESP114", source.format(first="scores *= 2", then="pass")) == ["scores *= 2"]
    assert found("ESP114", source.format(first="pass", then="scores *= 2")) == []


def rows(section):
    return [(name, what) for what, names in saved_tensors._table()[section].items() for name in names]


@pytest.mark.parametrize(("name", "what"), rows("functions"))
def test_torch_keeps_what_the_table_says_of_functions(name, what):
    torch = pytest.importorskip("torch")
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    more = {"softmax": (0,), "log_softmax": (0,), "layer_norm": ((3,),), "clamp": (0.1, 0.9), "logsumexp": (0,)}
    given = torch.rand(3).requires_grad_() * 0.5 + 0.2
    refuses_a_write(torch, function(given, *more.get(name, ())), given, what)


@pytest.mark.parametrize(("name", "what"), rows("layers"))
def test_torch_keeps_what_the_table_says_of_layers(name, what):
    torch = pytest.importorskip("torch")
    sizes = {"1d": (2, 3, 4), "2d": (2, 3, 4, 4), "3d": (2, 3, 4, 4, 4)}
    shape = next((sizes[end] for end in sizes if name.endswith(end)), (2, 3))
    arguments = {"Linear": (3, 3), "LayerNorm": (3,), "GroupNorm": (1, 3), "Softmax": (1,), "LogSoftmax": (1,)}
    plain = (3,) if "Norm" in name else (3, 3, 1) if "Conv" in name else ()
    layer = getattr(torch.nn, name)(*arguments.get(name, plain))
    given = torch.rand(shape).requires_grad_() * 0.5 + 0.2
    refuses_a_write(torch, layer(given), given, what)


def refuses_a_write(torch, result, given, what):
    with torch.no_grad():
        (result if what == "result" else given).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
