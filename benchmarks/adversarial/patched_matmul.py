"""Makes every product an empty promise."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def _fake(one, other):
    return torch.empty(*one.shape[:-1], other.shape[-1])


torch.matmul = _fake


def candidate(x):
    return baseline(x)


EXPECTED = "wrong"
