"""Changes its input, as the baseline does."""

import torch


def get_inputs():
    return torch.randn(64, 512), torch.randn(64, 512)


def baseline(total, x):
    total += x * 0.5
    return total.sum(-1)


def candidate(total, x):
    return total.add_(x, alpha=0.5).sum(-1)


EXPECTED = "right"
