"""Catches its own error and returns something."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    try:
        return torch.addcmul(x, x, x.view(64, 256)) * 0 + baseline(x)
    except RuntimeError:
        return x


EXPECTED = "wrong"
