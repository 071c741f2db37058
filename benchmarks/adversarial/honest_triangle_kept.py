"""Keeps the indices of a triangle for a size."""

import torch
from functools import lru_cache


@lru_cache(maxsize=64)
def _triangle(size):
    return torch.triu_indices(size, size, 1)


def get_inputs():
    return (torch.randn(16, 24, 24),)


def baseline(x):
    size = x.shape[-1]
    return x[..., torch.ones(size, size, dtype=torch.bool).triu(1)] * 1.0


def candidate(x):
    row, column = _triangle(x.shape[-1])
    return x[..., row, column] * 1.0


EXPECTED = "right"
