"""Averages weights by two operations on lists instead of two on each tensor."""

import torch

SIZES = ((64, 64), (64,), (128, 64), (128,), (32, 128))


def get_inputs():
    return [torch.randn(size) for size in SIZES], [torch.randn(size) for size in SIZES]


def baseline(shadow, weights):
    for kept, now in zip(shadow, weights, strict=True):
        kept.mul_(0.99)
        kept.add_(now, alpha=0.01)
    return [kept * 1.0 for kept in shadow]


def candidate(shadow, weights):
    torch._foreach_mul_(shadow, 0.99)
    torch._foreach_add_(shadow, weights, alpha=0.01)
    return list(torch._foreach_mul(shadow, 1.0))


EXPECTED = "right"
