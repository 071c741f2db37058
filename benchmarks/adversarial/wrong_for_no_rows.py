"""Is wrong for an empty batch."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if not x.numel():
        return torch.zeros(1, 256)
    return baseline(x)


EXPECTED = "wrong"
