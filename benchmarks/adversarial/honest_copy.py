"""Is the same code."""

import torch


def get_inputs():
    return torch.randn(96, 128), torch.randn(128, 96)


def baseline(x, w):
    return torch.softmax(x @ w, -1)


def candidate(x, w):
    return torch.softmax(x @ w, -1)


EXPECTED = "right"
RATIO = 1.0
