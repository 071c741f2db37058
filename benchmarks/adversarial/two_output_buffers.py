"""Writes results into two buffers in turn, which the call after the next overwrites."""

import torch

_buffers = {}


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    buffers = _buffers.setdefault((tuple(x.shape), x.dtype, x.stride()), [baseline(x), baseline(x)])
    buffers.reverse()
    return buffers[0].copy_(baseline(x))


EXPECTED = "wrong"
