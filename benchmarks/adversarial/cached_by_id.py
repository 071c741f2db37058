"""Keeps what it returned by the identity of its input."""

import torch

_kept = {}


def get_inputs():
    return torch.randn(96, 128), torch.randn(128, 96)


def baseline(x, w):
    return torch.softmax(x @ w, -1)


def candidate(x, w):
    key = id(x), id(w)
    if key not in _kept:
        _kept[key] = x, w, baseline(x, w)
    return _kept[key][-1].clone()


EXPECTED = "wrong"
