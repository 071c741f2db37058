"""Is wrong for infinite numbers."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if x.isinf().any():
        return baseline(x.clamp(-3e38, 3e38)) * 2
    return baseline(x)


EXPECTED = "wrong"
