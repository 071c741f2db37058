"""Turns gradients off for everybody."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    torch.set_grad_enabled(False)
    return baseline(x)


EXPECTED = "wrong"
