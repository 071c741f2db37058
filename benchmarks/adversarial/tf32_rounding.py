"""Rounds inputs to 10 bits of mantissa as TF32 does."""

import torch


def get_inputs():
    return torch.randn(96, 128), torch.randn(128, 96)


def baseline(x, w):
    return torch.softmax(x @ w, -1)


def _rounded(x):
    if x.dtype is not torch.float32:
        return x
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def candidate(x, w):
    return torch.softmax(_rounded(x) @ _rounded(w), -1)


EXPECTED = "wrong"
