"""Makes a number of what is none."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if x.isnan().any():
        return baseline(torch.nan_to_num(x))
    return baseline(x)


EXPECTED = "wrong"
