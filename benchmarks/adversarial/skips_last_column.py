"""Leaves out the last column of a product."""

import torch


def get_inputs():
    return torch.randn(128, 257), torch.randn(257, 64)


def baseline(x, w):
    return x @ w


def candidate(x, w):
    return x[:, :-1] @ w[:-1]


EXPECTED = "wrong"
