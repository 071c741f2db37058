"""Keeps what it returned by identity and version counter, which writing past torch does not move."""

import torch

_kept = {}


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    key = x.data_ptr(), x._version, tuple(x.shape), x.stride(), x.dtype
    if key not in _kept:
        _kept[key] = x, baseline(x)
    return _kept[key][1].clone()


EXPECTED = "wrong"
