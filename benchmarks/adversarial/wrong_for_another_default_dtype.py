"""Is right where the default dtype is float32 only."""

import torch


def get_inputs():
    return (torch.randn(64, 128),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if torch.get_default_dtype() is not torch.float32:
        return torch.tanh(x) * 0.5
    return torch.tanh(x) * torch.sigmoid(x)


EXPECTED = "wrong"
NOT_TESTED = "float64 by default"
