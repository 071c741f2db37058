"""Keeps what it returned by content and hands out the very object, which its caller may write into."""

import torch

_kept = {}


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    key = x.dtype, tuple(x.shape), x.stride(), tuple(x.flatten().tolist())
    if key not in _kept:
        _kept[key] = baseline(x)
    return _kept[key]


EXPECTED = "wrong"
