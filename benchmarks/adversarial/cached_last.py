"""Returns what it returned last."""

import torch

_last = []


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if not _last or _last[0].shape != x.shape or _last[0].dtype != x.dtype:
        _last[:] = [baseline(x)]
    return _last[0].clone()


EXPECTED = "wrong"
