"""Takes five terms of the series of exp."""

import torch


def get_inputs():
    return (torch.rand(64, 512) * 0.5,)


def baseline(x):
    return torch.exp(x)


def candidate(x):
    return 1 + x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5))))


EXPECTED = "wrong"
