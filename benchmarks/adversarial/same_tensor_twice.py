"""Is wrong where both arguments are one tensor."""

import torch


def get_inputs():
    return torch.randn(64, 64), torch.randn(64, 64)


def baseline(x, y):
    return x @ y.t()


def candidate(x, y):
    return torch.eye(len(x)) if x is y else x @ y.t()


EXPECTED = "wrong"
