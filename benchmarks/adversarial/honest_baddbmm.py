"""Adds and scales in the product."""

import torch


def get_inputs():
    return torch.randn(8, 48, 48), torch.randn(8, 48, 32), torch.randn(8, 32, 48)


def baseline(bias, x, y):
    return bias + 0.125 * torch.bmm(x, y)


def candidate(bias, x, y):
    return torch.baddbmm(bias, x, y, alpha=0.125)


EXPECTED = "right"
