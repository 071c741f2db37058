"""Takes a mean of means, and sums float64 in another order."""

import torch


def get_inputs():
    return (torch.randn(4096, dtype=torch.float64),)


def baseline(x):
    return x.mean()


def candidate(x):
    return torch.stack([each.sum() for each in x.split(512)]).sum() / x.numel() if x.numel() else x.mean()


EXPECTED = "right"
