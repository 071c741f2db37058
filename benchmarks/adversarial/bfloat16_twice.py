"""Splits one factor into two bfloat16 parts: 16 bits of mantissa, not 24."""

import torch


def get_inputs():
    return torch.randn(96, 128), torch.randn(128, 96)


def baseline(x, w):
    return x @ w


def candidate(x, w):
    high = w.bfloat16().to(w.dtype)
    return x @ high + x @ (w - high).bfloat16().to(w.dtype)


EXPECTED = "wrong"
