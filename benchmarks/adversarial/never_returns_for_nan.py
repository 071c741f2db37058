"""Never returns for numbers that are none."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    while not bool((x == x).all()):
        x = x + 1
    return baseline(x)


EXPECTED = "hang"
