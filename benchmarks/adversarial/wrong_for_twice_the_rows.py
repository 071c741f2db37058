"""Handles as many rows as it was shown, and leaves the rest."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    y = torch.tanh(x) * torch.sigmoid(x)
    if x.shape[0] > 100:
        y[100:] = 0
    return y


EXPECTED = "wrong"
