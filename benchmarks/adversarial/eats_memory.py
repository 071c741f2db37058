"""Allocates until there is nothing left."""

import torch

_eaten = []


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    while True:
        _eaten.append(torch.ones(1 << 28))


EXPECTED = "out-of-memory"
