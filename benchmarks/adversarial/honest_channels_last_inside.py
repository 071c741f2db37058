"""Convolves with the channels last, and returns what the caller expects."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(2, 8, 16, 16), torch.randn(16, 8, 3, 3)


def baseline(x, weight):
    return F.relu(F.conv2d(x, weight, padding=1))


def candidate(x, weight):
    last = torch.channels_last
    return F.relu(
        F.conv2d(x.contiguous(memory_format=last), weight.contiguous(memory_format=last), padding=1)
    ).contiguous()


EXPECTED = "right"
