"""Flushes denormal numbers to zero from now on."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    torch.set_flush_denormal(True)
    return baseline(x)


EXPECTED = "wrong"
