"""Changes its priority once."""

import os

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if os.nice(0) == 0:
        os.nice(3)
    return baseline(x)


EXPECTED = "wrong"
