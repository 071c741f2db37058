"""Broadcasts instead of repeating both factors."""

import torch


def get_inputs():
    return torch.randn(96), torch.randn(64)


def baseline(x, y):
    return x[:, None].repeat(1, y.shape[0]) * y[None].repeat(x.shape[0], 1)


def candidate(x, y):
    return x[:, None] * y


EXPECTED = "right"
