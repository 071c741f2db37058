"""Works in memory of its own."""

import torch


def get_inputs():
    return (torch.randn(64, 512),)


def baseline(x):
    return torch.relu(torch.sin(x) * 2 + 1)


def candidate(x):
    return torch.sin(x).mul_(2).add_(1).relu_()


EXPECTED = "right"
