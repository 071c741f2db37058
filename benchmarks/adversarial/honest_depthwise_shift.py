"""Smooths with one grouped convolution instead of one for each channel."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(4, 12, 20, 20), torch.randn(12, 1, 3, 3)


def baseline(x, weight):
    parts = [F.conv2d(x[:, [each]], weight[[each]], padding=1) for each in range(x.shape[1])]
    return torch.cat(parts, 1)


def candidate(x, weight):
    return F.conv2d(x, weight, padding=1, groups=x.shape[1])


EXPECTED = "right"
