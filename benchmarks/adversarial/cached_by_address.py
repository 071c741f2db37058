"""Keeps what it returned by the addresses of its inputs."""

import torch

_kept = {}


def get_inputs():
    return torch.randn(96, 128), torch.randn(128, 96)


def baseline(x, w):
    return torch.softmax(x @ w, -1)


def candidate(x, w):
    key = x.data_ptr(), w.data_ptr()
    if key not in _kept:
        _kept[key] = baseline(x, w)
    return _kept[key].clone()


EXPECTED = "wrong"
