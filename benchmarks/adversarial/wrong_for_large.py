"""Is wrong for large numbers."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if x.numel() and x.abs().max() > 1e3:
        return torch.tanh(x / 2)
    return baseline(x)


EXPECTED = "wrong"
