"""Returns the transposed memory."""

import torch


def get_inputs():
    return torch.randn(96, 128), torch.randn(128, 64)


def baseline(x, w):
    return x @ w


def candidate(x, w):
    return (w.t() @ x.t()).t()


EXPECTED = "wrong"
