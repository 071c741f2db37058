"""Cases of ESP268, ESP269 and ESP270: ends of episodes, positions in time, samples of a Gaussian."""

from __future__ import annotations

import pytest

RETURNS = """
import torch

def {name}(rewards, values, {flag}, gamma=0.99, lam=0.95):
    result, last = torch.zeros_like(rewards), 0.0
    for t in {over}:
        {body}
        result[t] = last
    return result
"""
GAE = "last = rewards[t] + gamma * values[t + 1] - values[t] + gamma * lam * last"


@pytest.mark.parametrize("flag", ["dones", "done", "next_terminals", "terminated"])
@pytest.mark.parametrize(
    ("over", "body"),
    [
        ("reversed(range(len(rewards)))", GAE),
        ("range(len(rewards) - 1, -1, -1)", "last = rewards[t] + gamma * last"),
        ("reversed(range(8))", "delta = rewards[t] - values[t]\n        last = delta + last * gamma * lam"),
        ("range(7, -1, -1)", "last = gamma * last + rewards[t]"),
    ],
)
def test_a_sum_across_the_ends_of_episodes_is_reported(flag, over, body, found):
    assert len(found("ESP268", RETURNS.format(name="returns", flag=flag, over=over, body=body))) == 1


@pytest.mark.parametrize(
    ("flag", "over", "body"),
    [
        ("dones", "reversed(range(8))", "last = rewards[t] + gamma * last * (1 - dones[t])"),
        ("dones", "reversed(range(8))", "last = rewards[t] + gamma * (0.0 if dones[t] else last)"),
        ("masks", "reversed(range(8))", GAE),
        ("dones", "range(8)", GAE),
        ("dones", "reversed(range(8))", "last = rewards[t] - values[t]"),
        ("dones, terminals", "reversed(range(8))", "last = rewards[t] + gamma * last * (1 - terminals[t])"),
    ],
)
def test_sums_that_end_with_the_episode_are_right(flag, over, body, found):
    assert found("ESP268", RETURNS.format(name="returns", flag=flag, over=over, body=body)) == []


POSITIONS = """
import torch
from torch import nn

class Positions(nn.Module):
    def __init__(self, width, longest=5000):
        super().__init__()
        self.drop = nn.Dropout(0.1)
        self.register_buffer("pe", torch.zeros(longest, 1, width))

    def forward(self, x):
        {add}
        return self.drop(x)
"""
MODEL = """
import torch
from torch import nn
from positions import Positions

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos = Positions(8)
        layer = nn.TransformerEncoderLayer(8, 2, batch_first={first})
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x):
        {body}
"""
DIRECT = "return self.encoder(self.pos(x))"


@pytest.mark.parametrize(
    "add",
    [
        "x = x + self.pe[: x.size(0)]",
        "x = x + self.pe[:x.size(0), :]",
        "x += self.pe[: x.shape[0]]",
        "x = self.pe[: len(x)].detach() + x",
    ],
)
@pytest.mark.parametrize("body", [DIRECT, "h = self.pos(x)\n        h = self.encoder(h)\n        return h.mean(1)"])
def test_an_encoding_cut_to_the_batch_is_reported_where_the_batch_comes_first(add, body, found):
    files = {"positions.py": POSITIONS.format(add=add), "model.py": MODEL.format(first=True, body=body)}
    assert len(found("ESP269", files)) == 1


@pytest.mark.parametrize(
    ("add", "first", "body"),
    [
        ("x = x + self.pe[: x.size(0)]", False, DIRECT),
        ("x = x + self.pe[: x.size(1)].transpose(0, 1)", True, DIRECT),
        ("x = x + self.pe[: x.size(0)]", True, "return self.encoder(self.pos(x.transpose(0, 1)).transpose(0, 1))"),
        ("x = x + self.pe[: x.size(0)]", True, "return self.pos(self.encoder(x))"),
    ],
)
def test_an_encoding_cut_to_the_time_is_right(add, first, body, found):
    files = {"positions.py": POSITIONS.format(add=add), "model.py": MODEL.format(first=first, body=body)}
    assert found("ESP269", files) == []


VAE = """
import torch

def sample(mu, logvar):
    {first}
    return {sample}

def divergence(mu, logvar):
    return {divergence}
"""
KL = "-0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())"


@pytest.mark.parametrize(
    ("first", "sample", "divergence"),
    [
        ("eps = torch.randn_like(mu)", "mu + eps * logvar.exp()", KL),
        ("std = torch.exp(logvar)", "mu + std * torch.randn_like(std)", KL),
        ("std, eps = 1, 1", "torch.randn_like(mu).mul(logvar.exp()).add_(mu)", KL),
        ("sigma = logvar.exp()", "mu + torch.randn(8) * sigma", "0.5 * (mu ** 2 + logvar.exp() - 1 - logvar).sum(1)"),
        ("pass", "torch.randn_like(mu) * torch.exp(logvar) + mu", "-0.5 * (1 + logvar - mu * mu - torch.exp(logvar))"),
    ],
)
def test_noise_scaled_by_the_variance_of_the_divergence_is_reported(first, sample, divergence, found):
    assert len(found("ESP270", VAE.format(first=first, sample=sample, divergence=divergence))) == 1


@pytest.mark.parametrize(
    ("first", "sample", "divergence"),
    [
        ("std = torch.exp(0.5 * logvar)", "mu + std * torch.randn_like(std)", KL),
        ("std = logvar.mul(0.5).exp()", "mu + std * torch.randn_like(std)", KL),
        ("logvar = logvar / 2", "mu + torch.randn_like(mu) * logvar.exp()", KL),
        (
            "std = logvar.exp()",
            "mu + std * torch.randn_like(std)",
            "-0.5 * (1 + 2 * logvar - mu ** 2 - (2 * logvar).exp())",
        ),
        ("std = logvar.exp().sqrt()", "mu + std * torch.randn_like(std)", KL),
    ],
)
def test_noise_scaled_by_the_deviation_is_right(first, sample, divergence, found):
    assert found("ESP270", VAE.format(first=first, sample=sample, divergence=divergence)) == []
