"""Reads memory in order, whatever the strides are."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if not x.is_contiguous():
        return baseline(x.as_strided(x.shape, tuple(torch.empty(x.shape).stride()), 0))
    return baseline(x)


EXPECTED = "wrong"
