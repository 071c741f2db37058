"""Splits the work over threads of its own."""

from concurrent.futures import ThreadPoolExecutor

import torch

_pool = ThreadPoolExecutor(2)


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if x.shape[0] < 2 or x.requires_grad:
        return baseline(x)
    made = torch.empty_like(x)
    half = x.shape[0] // 2
    parts = [slice(0, half), slice(half, None)]
    list(_pool.map(lambda part: made[part].copy_(baseline(x[part])), parts))
    return made


EXPECTED = "wrong"
