"""Computes every second row and repeats it."""

import torch


def get_inputs():
    return torch.randn(96, 128), torch.randn(128, 96)


def baseline(x, w):
    return torch.softmax(x @ w, -1)


def candidate(x, w):
    return baseline(x[::2], w).repeat_interleave(2, 0)[: x.shape[0]]


EXPECTED = "wrong"
