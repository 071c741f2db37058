"""Never returns."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    while True:
        x = x + 1


EXPECTED = "hang"
