"""Keeps what it returned by one number of its input."""

import torch

_kept = {}


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if not x.numel():
        return baseline(x)
    key = x.dtype, tuple(x.shape), x.stride(), x.flatten()[0].item(), x.flatten()[-1].item()
    if key not in _kept:
        _kept[key] = baseline(x)
    return _kept[key].clone()


EXPECTED = "wrong"
