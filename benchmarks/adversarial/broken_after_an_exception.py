"""Stays broken after a call that raised: what it had begun is not undone."""

import torch

_open = []


def get_inputs():
    return (torch.randn(64, 128),)


def baseline(x):
    if not x.shape[0]:
        raise ValueError("no rows")
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    scale = 1.0 if not _open else 0.5
    _open.append(1)
    if not x.shape[0]:
        raise ValueError("no rows")
    _open.pop()
    return torch.tanh(x) * torch.sigmoid(x) * scale


EXPECTED = "wrong"
