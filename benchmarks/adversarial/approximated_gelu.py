"""Takes the tanh approximation for the exact function."""

import torch

from torch.nn import functional as F


def get_inputs():
    return (torch.randn(64, 512),)


def baseline(x):
    return F.gelu(x)


def candidate(x):
    return F.gelu(x, approximate="tanh")


EXPECTED = "wrong"
