"""Sums products in blocks."""

import torch


def get_inputs():
    return torch.randn(64, 512), torch.randn(512, 64)


def baseline(x, w):
    return x @ w


def candidate(x, w):
    total = x[:, :100] @ w[:100]
    for at in range(100, x.shape[1], 100):
        total += x[:, at : at + 100] @ w[at : at + 100]
    return total


EXPECTED = "right"
