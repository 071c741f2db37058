"""Keeps what it returned by the shape of its input."""

import torch

_kept = {}


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    key = tuple(x.shape), x.dtype
    if key not in _kept:
        _kept[key] = baseline(x)
    return _kept[key].clone()


EXPECTED = "wrong"
