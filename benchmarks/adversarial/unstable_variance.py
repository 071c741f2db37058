"""Takes the difference of two large numbers for a variance."""

import torch


def get_inputs():
    return (torch.randn(64, 1024) + 30,)


def baseline(x):
    return x.var(-1, unbiased=False)


def candidate(x):
    return (x * x).mean(-1) - x.mean(-1) ** 2


EXPECTED = "wrong"
