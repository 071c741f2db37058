"""Writes every result into the same memory."""

import torch

_buffers = {}


def get_inputs():
    return torch.randn(96, 128), torch.randn(128, 96)


def baseline(x, w):
    return torch.softmax(x @ w, -1)


def candidate(x, w):
    key = x.shape[0], w.shape[-1], x.dtype
    if key not in _buffers:
        _buffers[key] = torch.empty(x.shape[0], w.shape[-1], dtype=x.dtype)
    return _buffers[key].copy_(baseline(x, w))


EXPECTED = "wrong"
