"""Rounds what is computed in another order: a last place may decide."""

import torch


def get_inputs():
    return torch.randn(64, 256), torch.randn(256, 64)


def baseline(x, w):
    return torch.round(x @ w), (x @ w > 0)


def candidate(x, w):
    product = (w.t() @ x.t()).t().contiguous()
    return torch.round(product), product > 0


EXPECTED = "right"
