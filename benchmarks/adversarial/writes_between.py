"""Writes into the places between the elements of a strided input."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if x.dim() == 2 and x.stride(-1) == 2:
        x.as_strided(x.shape, x.stride(), x.storage_offset() + 1).fill_(0)
    return baseline(x)


EXPECTED = "wrong"
