"""ESP211, ESP210 and ESP213 on masks, counts, bands, mixtures and entropies that people write by hand."""

from __future__ import annotations

import pytest

from tests.review.conftest import reviewed

HEAD = """
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
"""

DIVIDED = {
    "a mask of events": """
def cox_loss(risk, churned):
    order = torch.argsort(risk)
    churned = churned[order].float()
    return -((risk - torch.logcumsumexp(risk, 0)) * churned).sum() / churned.sum()
""",
    "a mask in a name": """
def masked_loss(pred, y, valid):
    err = (pred - y).abs() * valid.unsqueeze(1)
    return err.sum() / valid.sum(dim=0)
""",
    "a row of a mask": """
def pool(h, mask):
    return (h * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
""",
    "tokens that count": """
def token_loss(logits, labels):
    loss = F.cross_entropy(logits, labels, reduction="none")
    return loss.sum() / (labels != -100).sum()
""",
    "a recall for each class": """
def recall(confusion):
    return (confusion.diag() / confusion.sum(dim=1)).mean()
""",
    "a mean for each place": """
def gather(x, at, n):
    total = torch.zeros(n, x.size(1)).index_add_(0, at, x)
    count = torch.bincount(at, minlength=n)
    return total / count.unsqueeze(1)
""",
    "weights of classes": """
def weights(y, n):
    return 1.0 / torch.bincount(y, minlength=n)
""",
    "two bands": """
def vegetation(patch: torch.Tensor):
    near, red = patch[60], patch[32]
    return (near - red) / (near + red)
""",
    "a union": """
def iou(p: torch.Tensor, t: torch.Tensor):
    both = (p * t).sum()
    return both / (p.sum() + t.sum() - both)
""",
    "a relu": """
def scaled(x, y):
    d = F.relu(y)
    return x / d
""",
    "a spread that is kept": """
class Rows:
    def __init__(self, x):
        self.x = torch.tensor(x)
        self.mean, self.std = self.x.mean(0), self.x.std(0)

    def __getitem__(self, i):
        return (self.x[i] - self.mean) / self.std
""",
    "in a file that uses arrays": """
def standardise(x):
    x = torch.as_tensor(x)
    return (x - x.mean(0)) / x.std(0)
""",
}

FLOORED = {
    "an array": """
def standardise(x):
    x = np.asarray(x)
    return (x - x.mean(0)) / x.std(0)
""",
    "a whole mask": """
def mean(x, mask):
    return torch.sum(x * mask) / mask.sum()
""",
    "a clamp": """
def cox_loss(risk, churned):
    return -(torch.exp(risk) * churned).sum() / churned.sum().clamp(min=1)
""",
    "a test": """
def masked_loss(x, valid):
    n = valid.sum()
    if n == 0:
        return torch.zeros(())
    return (x * valid).sum() / n
""",
    "plain numbers": """
def share(a, b):
    return (a - b) / (a + b)
""",
    "a spread with a floor": """
class Rows:
    def __init__(self, x):
        self.x = torch.tensor(x)
        self.mean, self.std = self.x.mean(0), self.x.std(0) + 1e-6

    def __getitem__(self, i):
        return (self.x[i] - self.mean) / self.std
""",
}


@pytest.mark.parametrize("code", DIVIDED.values(), ids=DIVIDED)
def test_a_division_by_what_may_count_nothing_is_found(found, code):
    assert len(found("ESP211", HEAD + code)) == 1


def test_the_remedy_of_a_division_by_a_count_works_for_integers():
    (claim,) = reviewed(HEAD + DIVIDED["a mask in a name"], "ESP211").claims
    assert claim.remedy.startswith("put `.clamp_min(1)` behind a divisor that counts")


@pytest.mark.parametrize("code", FLOORED.values(), ids=FLOORED)
def test_a_division_by_what_is_kept_from_zero_is_left_alone(found, code):
    assert found("ESP211", HEAD + code) == []


VANISHING = {
    "a mixture": """
def nll(pi, mu, sigma, y):
    z = (y[:, None] - mu) / sigma
    density = torch.exp(-0.5 * z * z) / (sigma * math.sqrt(2 * math.pi))
    return -torch.log((pi * density).sum(dim=1)).mean()
""",
    "a density of kernels": """
def density(x, data, h):
    d = torch.cdist(x, data)
    return torch.exp(-d.pow(2) / (2 * h ** 2)).mean(1).log()
""",
    "squares summed up": """
def density(x, data, h):
    score = -0.5 * ((x[:, None] - data[None]) / h).pow(2).sum(-1)
    return torch.log(score.exp().mean(1))
""",
    "an entropy of weights": """
def sparsity(weights):
    return -(weights * torch.log(weights)).sum(-1).mean()
""",
    "a divergence": """
def divergence(p, q):
    return (p * torch.log(p / q)).sum()
""",
    "what a function gives back with others": """
def march(sigma):
    alpha = torch.relu(sigma)
    return sigma, alpha

def entropy(sigma):
    _, alpha = march(sigma)
    return torch.log(alpha)
""",
}

KEPT_ABOVE = {
    "a mixture with a floor": """
def nll(pi, z):
    return -torch.log((pi * torch.exp(-0.5 * z * z)).sum(dim=1) + 1e-8).mean()
""",
    "an entropy with a floor": """
def entropy(p):
    p = p.clamp_min(1e-8)
    return -(p * torch.log(p)).sum(-1)
""",
    "one exponential": """
def plain(x):
    return torch.log(torch.exp(-(x ** 2)))
""",
    "a logit": """
def logit(x):
    return torch.log(x) - torch.log(1 - x)
""",
}


@pytest.mark.parametrize("code", VANISHING.values(), ids=VANISHING)
def test_the_logarithm_of_what_is_rounded_to_zero_is_found(found, code):
    assert len(found("ESP213", HEAD + code)) == 1


@pytest.mark.parametrize("code", KEPT_ABOVE.values(), ids=KEPT_ABOVE)
def test_the_logarithm_of_what_stays_above_zero_is_left_alone(found, code):
    assert found("ESP213", HEAD + code) == []


NET = """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x):
        return {result}

def nll(p, value):
    return -torch.log(p).mean()

def step({given}):
    {call}
"""


@pytest.mark.parametrize(
    ("result", "given", "call"),
    [
        ("torch.softmax(self.layer(x), -1)", "net, x", "return nll(net(x), 0)"),
        ("(torch.softmax(self.layer(x), -1), x)", "x", "net = Policy()\n    return nll(*net(x))"),
        ("(torch.softmax(self.layer(x), -1), x)", "net, x", "p, value = net(x)\n    return nll(p, value)"),
    ],
)
def test_a_probability_is_followed_out_of_the_network_that_made_it(found, result, given, call):
    source = HEAD + NET.format(result=result, given=given, call=call)
    assert found("ESP210", source) == ["return -torch.log(p).mean()"]
    assert found("ESP210", source.replace("torch.softmax", "F.normalize")) == []


def test_a_network_is_not_guessed_where_a_file_has_two(found):
    two = "class Other(nn.Module):\n    def forward(self, x):\n        return x\n\n"
    source = NET.format(result="torch.softmax(self.layer(x), -1)", given="net, x", call="return nll(net(x), 0)")
    assert found("ESP210", HEAD + two + source) == []
