"""Is less exact for float64."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if x.dtype is torch.float64:
        return baseline(x.float()).double()
    return baseline(x)


EXPECTED = "wrong"
