"""ESP210 to ESP213 in the many ways in which people write them."""

from __future__ import annotations

import pytest

from esper_agents.review.engine import review_sources

IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


@pytest.fixture
def reviewed_severities():
    """Return a function from a rule and a source to the severities of what it finds, in order."""
    return lambda rule, source: [
        str(claim.severity) for claim in review_sources({"train.py": source}, rules=[rule]).claims
    ]


ROOTS = {
    "a power of a half": "((a - b) ** 2).sum(-1) ** 0.5",
    "half as a fraction": "(a * a).sum(-1) ** (1 / 2)",
    "a plain tensor squared": "torch.sqrt(torch.sum(a**2, dim=1, keepdim=True))",
    "a function and a method": "torch.sum((a - b) ** 2, dim=1).sqrt()",
    "two components": "torch.sqrt(a[..., 0] ** 2 + a[..., 1].pow(2))",
    "one product with itself": "torch.einsum('bi,bi->b', a, a).sqrt()",
    "a variance": "a.var(dim=0, unbiased=False).sqrt()",
    "a variance by hand": "torch.sqrt((a**2).mean(0) - a.mean(0) ** 2)",
    "distances multiplied out": "(a.pow(2).sum(1, keepdim=True) + b.pow(2).sum(1) - 2 * a @ b.t()).clamp(min=0).sqrt()",
    "a relu": "F.relu(a @ b).sqrt()",
    "the sine of a cosine": "torch.sqrt(1.0 - torch.pow(cosine, 2))",
}
FLOORED_ROOTS = {
    "a floor by name": "torch.sqrt((a**2).sum(-1) + eps)",
    "a clamp above 0": "torch.sqrt(((a - b) ** 2).sum(-1).clamp(min=1e-12))",
    "chosen by a test": "(lambda d: d[d > 0].sqrt())((a - b).pow(2).sum(-1))",
    "sizes": "(a.shape[0] ** 2 + 1) ** 0.5",
    "detached": "(a.detach() ** 2).sum().sqrt()",
    "detached behind": "(a**2).sum().sqrt().detach()",
    "a schedule": "torch.sqrt(1 - alphas)",
    "a setting": "torch.sqrt(a**2 + self.width**2)",
}


@pytest.mark.parametrize("expression", ROOTS.values(), ids=ROOTS)
def test_a_root_of_what_may_be_zero_is_found(found, expression):
    source = f"{IMPORTS}def contrastive_loss(a, b, cosine):\n    return {expression}\n"
    assert len(found("ESP212", source)) == 1


@pytest.mark.parametrize("expression", FLOORED_ROOTS.values(), ids=FLOORED_ROOTS)
def test_a_root_with_a_floor_or_without_a_gradient_is_left_alone(found, expression):
    source = f"{IMPORTS}def contrastive_loss(self, a, b, alphas, eps):\n    return {expression}\n"
    assert found("ESP212", source) == []


NORMALISED = """
import torch
import torch.nn as nn

def dot(p, q):
    return (p * q).sum(1, keepdim=True)

def normalise(x, eps=1e-10):
    size = dot(x, x).sqrt()
    return x / (size + eps)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 8, 3)

    def forward(self, x):
        return normalise(self.body(x))
"""


def test_a_floor_behind_the_root_does_not_help(found):
    assert found("ESP212", NORMALISED) == ["size = dot(x, x).sqrt()"]
    assert found("ESP212", NORMALISED.replace("dot(x, x)", "(dot(x, x) + eps)")) == []


def test_a_root_in_set_up_on_arrays_or_by_an_optimizer_is_left_alone(found):
    source = IMPORTS + "def {name}(self, x):\n    {first}\n    return (x - self.y).pow(2).sum().sqrt()\n"
    assert len(found("ESP212", source.format(name="edges", first="pass"))) == 1
    for name in ("__init__", "reset_parameters", "__getitem__", "step", "rmse"):
        assert found("ESP212", source.format(name=name, first="pass")) == []
    assert found("ESP212", source.format(name="edges", first="x = torch.from_numpy(x)")) == []


LOGARITHMS = {
    "a part of a softmax": "torch.log(F.softmax(x, 1)[range(3), y])",
    "a softmax by hand": "torch.log(x.exp() / x.exp().sum(-1, keepdim=True))",
}
ZEROS = {
    "a spectrum": "torch.log(torch.stft(x, 512, return_complex=True).abs())",
    "a power spectrum": "10 * torch.log10(torch.fft.rfft(x).abs() ** 2)",
    "counts over their sum": "torch.log(torch.bincount(y) / y.numel())",
    "the probability of the class": "torch.where(y == 1, torch.sigmoid(x), 1 - torch.sigmoid(x)).log()",
    "one probability over another": "(x.softmax(-1) / y.softmax(-1)).log()",
    "a tanh times itself": "torch.log(1 - torch.tanh(x) * torch.tanh(x))",
    "1 minus an exp": "torch.log(1 - torch.exp(-x))",
    "a norm": "x.norm(dim=-1).log()",
    "a maximum": "torch.log(torch.maximum(x, torch.zeros_like(x)))",
}
NO_ZEROS = {
    "the largest probability": "F.softmax(x, -1).max(-1)[0].log()",
    "a spectrum with a floor": "torch.log(torch.stft(x, 512, return_complex=True).abs() + 1e-6)",
    "counts that are not 0": "(lambda n: n[n > 0].log())(torch.bincount(y))",
    "an additive mask": "torch.log(mask.float())",
    "a sum of exponentials": "torch.log(x.exp().sum(-1))",
    "a variance with a floor": "torch.log(x.var(0) + 1e-5)",
}


@pytest.mark.parametrize("expression", LOGARITHMS.values(), ids=LOGARITHMS)
def test_the_logarithm_of_a_part_or_of_a_softmax_by_hand_is_found(found, expression):
    assert len(found("ESP210", f"{IMPORTS}def f(x, y):\n    return {expression}\n")) == 1


@pytest.mark.parametrize("expression", ZEROS.values(), ids=ZEROS)
def test_the_logarithm_of_what_may_be_zero_is_found(found, expression):
    assert len(found("ESP213", f"{IMPORTS}def f(x, y):\n    return {expression}\n")) == 1


@pytest.mark.parametrize("expression", NO_ZEROS.values(), ids=NO_ZEROS)
def test_the_logarithm_of_what_is_above_zero_is_left_alone(found, expression):
    source = f"{IMPORTS}def f(x, y, mask):\n    return {expression}\n"
    assert found("ESP210", source) + found("ESP213", source) == []


DIVISIONS = {
    "a norm by hand": "n = torch.sqrt((x**2).sum(-1, keepdim=True))\n    return x / n",
    "div": "return x.div(x.norm(2, 1, keepdim=True).expand_as(x))",
    "torch.div": "return torch.div(x, torch.linalg.norm(x, dim=-1, keepdim=True))",
    "1 over a squared norm": "return y * (1.0 / x.norm(dim=-1).pow(2))",
    "two names at once": "mu, sigma = x.mean(0), x.std(0)\n    return (x - mu) / sigma",
    "std_mean": "std, mean = torch.std_mean(x, dim=0)\n    return (x - mean) / std",
    "methods": "m = x.mean()\n    s = x.std()\n    return x.sub(m).div(s)",
    "the root of a variance": "return (x - x.mean(-1)) / torch.sqrt(x.var(-1))",
    "a range with names": "lo, hi = x.min(), x.max()\n    return (x - lo) / (hi - lo)",
    "the largest in place": "x -= x.min(1, keepdim=True)[0]\n    x /= x.max(1, keepdim=True)[0]\n    return x",
    "a mean over a mask": "m = y.ne(0).float()\n    s = (x * m).sum()\n    return s / m.sum()",
    "a count of positives": "pos = y > 0\n    n = pos.sum()\n    loss = F.l1_loss(x[pos], y[pos])\n    return loss / n",
    "a cosine with names": "a = x.norm()\n    b = y.norm()\n    return (x * y).sum() / (a * b)",
}
FLOORED_DIVISIONS = {
    "a norm by hand with a floor": "n = torch.sqrt((x**2).sum(-1) + 1e-8)\n    return x / n",
    "a name with a floor": "s = x.std().clamp_min(1e-6)\n    return (x - x.mean()) / s",
    "somebody else's norm": "n = y.norm()\n    return x / n",
    "a count of all": "n = torch.ones_like(x).sum()\n    return x.sum() / n",
    "a count that is tested": "n = (y > 0).sum()\n    if n == 0:\n        return n\n    return (x * (y > 0)).sum() / n",
    "a range with a floor": "lo, hi = x.min(), x.max()\n    return (x - lo) / (hi - lo + 1e-8)",
    "weights that are just drawn": "x = kaiming_init((4, 4))\n    return x / x.std()",
    "a choice on the same line": "m = y.ne(0)\n    return 0 if m.sum() == 0 else (x * m).sum() / m.sum()",
    "a span of two": "return x / (torch.max(x, y) - torch.min(x, y))",
    "noise": "x = torch.randn(4, 4)\n    s = x.std()\n    return x / s",
}


@pytest.mark.parametrize("body", DIVISIONS.values(), ids=DIVISIONS)
def test_a_division_by_what_may_be_zero_is_found_once(found, body):
    assert len(found("ESP211", f"{IMPORTS}def f(x, y):\n    {body}\n")) == 1


@pytest.mark.parametrize("body", FLOORED_DIVISIONS.values(), ids=FLOORED_DIVISIONS)
def test_a_division_with_a_floor_is_left_alone(found, body):
    assert found("ESP211", f"{IMPORTS}def f(x, y):\n    {body}\n") == []


@pytest.mark.parametrize("end", [".to(torch.long)", ".long()", "\n    n = n.int()"])
def test_the_logarithm_of_a_bucket_is_left_alone(found, end):
    source = "def bucket(x):\n    n = (8 + torch.log(torch.relu(x)) * 4){}\n    return n\n"
    assert found("ESP213", IMPORTS + source.format(end)) == []
    assert len(found("ESP213", IMPORTS + source.format(""))) == 1


def test_zeros_that_were_replaced_and_weights_give_no_warning(reviewed_severities):
    source = IMPORTS + "def penalty_loss(x, weight):\n    {first}\n    return torch.sqrt(x[0] ** 2 + x[1] ** 2)\n"
    assert reviewed_severities("ESP212", source.format(first="pass")) == ["warning"]
    assert reviewed_severities("ESP212", source.format(first="x = torch.where(x == 0, 1e-6, x)")) == []
    assert reviewed_severities("ESP212", source.replace("x[0] **", "weight **").format(first="pass")) == ["suggestion"]


def test_rows_of_one_tensor_picked_by_two_indices_are_a_suggestion(reviewed_severities):
    source = IMPORTS + "def energy(pos, other, i, j):\n    return (pos[i] - {}[j]).pow(2).sum(-1).sqrt()\n"
    assert reviewed_severities("ESP212", source.format("pos")) == ["suggestion"]
    assert reviewed_severities("ESP212", source.format("other")) == ["warning"]


SPECTRUM = """
import torch
import torch.nn.functional as F


def power(wave):
    return torch.stft(wave, 400, return_complex=True).abs() ** 2


def log_mel(wave, filters):
    parts = torch.stft(wave, 400, return_complex=True)
    return {value}
"""


@pytest.mark.parametrize(
    "value",
    [
        "torch.log(filters @ parts.abs().square())",
        "torch.matmul(filters, power(wave)).log10()",
        "(parts.real.pow(2) + parts.imag.pow(2)).log()",
        "torch.log(torch.einsum('mf,bft->bmt', filters, parts.abs()))",
        "F.linear(parts.abs().transpose(1, 2), filters).log()",
        "parts.abs().pow(2).sum(1).log()",
    ],
)
def test_what_filters_make_of_a_spectrum_is_zero_in_silence(found, value):
    assert len(found("ESP213", SPECTRUM.format(value=value))) == 1


@pytest.mark.parametrize(
    "value",
    [
        "torch.log(filters @ power(wave) + 1e-6)",
        "torch.log(torch.clamp(filters @ parts.abs(), min=1e-5))",
        "torch.log1p(filters @ parts.abs())",
        "torch.log(filters @ wave.exp())",
        "torch.log(torch.sqrt(parts.abs().square() + 1e-9))",
    ],
)
def test_a_spectrum_with_something_added_is_fine(found, value):
    assert found("ESP213", SPECTRUM.format(value=value)) == []
