"""Takes the means of all windows at once instead of one after another."""

import torch


def get_inputs():
    return (torch.randn(16, 128),)


def baseline(x):
    return torch.stack([x[:, at : at + 8].mean(1) for at in range(x.shape[1] - 7)], 1)


def candidate(x):
    return x.unfold(1, 8, 1).mean(-1)


EXPECTED = "right"
