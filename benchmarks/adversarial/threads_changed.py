"""Takes more threads than it was given."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    torch.set_num_threads(2)
    return baseline(x)


EXPECTED = "wrong"
