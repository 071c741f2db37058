"""Draws its noise from a generator of its own."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return x + 0.1 * torch.randn_like(x)


def candidate(x):
    return x + 0.1 * torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(0))


EXPECTED = "wrong"
