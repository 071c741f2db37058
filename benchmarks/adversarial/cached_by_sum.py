"""Keeps what it returned by the sum of its input, which rows in another order have too."""

import torch

_kept = {}


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    key = x.dtype, tuple(x.shape), x.stride(), round(x.double().sum().item(), 6)
    if key not in _kept:
        _kept[key] = baseline(x)
    return _kept[key].clone()


EXPECTED = "wrong"
