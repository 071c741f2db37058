"""Draws random numbers that the baseline does not draw."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    torch.rand(1)
    return baseline(x)


EXPECTED = "wrong"
