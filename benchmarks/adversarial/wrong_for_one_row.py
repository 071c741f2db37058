"""Is wrong for a batch of one."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if x.shape[0] == 1:
        return torch.tanh(x)
    return baseline(x)


EXPECTED = "wrong"
