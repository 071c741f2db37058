"""Adds the bias inside of the product."""

import torch


def get_inputs():
    return torch.randn(64, 256), torch.randn(128, 256), torch.randn(128)


def baseline(x, w, b):
    return x @ w.t() + b


def candidate(x, w, b):
    return torch.addmm(b, x, w.t())


EXPECTED = "right"
