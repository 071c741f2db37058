"""Returns what has no gradient."""

import torch


def get_inputs():
    return torch.randn(32, 128, requires_grad=True), torch.randn(128, 64, requires_grad=True)


def baseline(x, w):
    return torch.tanh(x @ w)


def candidate(x, w):
    with torch.no_grad():
        return torch.tanh(x @ w)


EXPECTED = "wrong"
TRAIN = True
