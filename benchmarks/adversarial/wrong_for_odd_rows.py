"""Is wrong for a batch that its blocks do not divide."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if x.shape[0] % 4:
        return torch.cat([baseline(x[: x.shape[0] // 4 * 4]), x[x.shape[0] // 4 * 4 :]])
    return baseline(x)


EXPECTED = "wrong"
