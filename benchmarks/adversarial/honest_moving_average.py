"""Averages windows by the pooling of the library instead of by sums of slices."""

import torch
from torch.nn import functional as F


def get_inputs():
    return (torch.randn(16, 4, 128),)


def baseline(x):
    parts = [x[..., each : x.shape[-1] - 4 + each] for each in range(5)]
    return torch.stack(parts).mean(0)


def candidate(x):
    return F.avg_pool1d(x, 5, 1)


EXPECTED = "right"
