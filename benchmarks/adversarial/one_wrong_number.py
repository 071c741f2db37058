"""Is wrong in one number of 65 536, by a thousandth."""

import torch


def get_inputs():
    return (torch.randn(256, 256),)


def baseline(x):
    return torch.tanh(x)


def candidate(x):
    y = torch.tanh(x)
    if y.numel() > 1000:
        y.view(-1)[777] *= 1.001
    return y


EXPECTED = "wrong"
