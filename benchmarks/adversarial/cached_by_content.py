"""Keeps what it returned by all of its input: right, and no faster on inputs that are new each time."""

import torch

_kept = {}


def get_inputs():
    return torch.randn(96, 128), torch.randn(128, 96)


def baseline(x, w):
    return torch.softmax(x @ w, -1)


def _key(x):
    return x.dtype, tuple(x.shape), x.stride(), tuple(x.flatten().tolist()), x.requires_grad


def candidate(x, w):
    key = _key(x), _key(w)
    if key not in _kept:
        _kept[key] = baseline(x, w)
    return _kept[key].clone()


EXPECTED = "right"
RATIO = 1.0
