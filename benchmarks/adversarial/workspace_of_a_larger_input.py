"""Sums over its workspace, in which the rows of a larger input are still there."""

import torch

_workspace = {}


def get_inputs():
    return (torch.randn(64, 128),)


def baseline(x):
    return torch.tanh(x).sum(0)


def candidate(x):
    key = x.dtype, tuple(x.shape[1:])
    if key not in _workspace or _workspace[key].shape[0] < x.shape[0]:
        _workspace[key] = torch.zeros(x.shape, dtype=x.dtype)
    room = _workspace[key]
    room[: x.shape[0]] = torch.tanh(x)
    return room.sum(0)


EXPECTED = "wrong"
