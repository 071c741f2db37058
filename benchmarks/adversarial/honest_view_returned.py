"""Returns a view of its input, as the baseline does."""

import torch


def get_inputs():
    return (torch.randn(64, 512),)


def baseline(x):
    return x.transpose(0, 1).transpose(0, 1)[:, ::2]


def candidate(x):
    return x[:, ::2]


EXPECTED = "right"
