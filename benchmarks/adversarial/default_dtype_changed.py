"""Changes the default dtype."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    torch.set_default_dtype(torch.float64)
    return baseline(x)


EXPECTED = "wrong"
