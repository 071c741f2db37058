"""Chooses with where instead of indexing by a mask twice."""

import torch


def get_inputs():
    return (torch.randn(128, 128),)


def baseline(x):
    y = torch.empty_like(x)
    y[x > 0] = x[x > 0] * 2.0
    y[~(x > 0)] = x[~(x > 0)] * 0.1
    return y


def candidate(x):
    return torch.where(x > 0, x * 2.0, x * 0.1)


EXPECTED = "right"
