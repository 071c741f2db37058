"""Reads from the start of the storage."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if x.storage_offset():
        return baseline(x.as_strided(x.shape, x.stride(), 0))
    return baseline(x)


EXPECTED = "wrong"
