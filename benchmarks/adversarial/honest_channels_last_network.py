"""Runs two convolutions with the channels last, and gives back the usual order."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(2, 8, 20, 20), torch.randn(16, 8, 3, 3), torch.randn(8, 16, 1, 1)


def baseline(x, first, second):
    return F.conv2d(F.gelu(F.conv2d(x, first, padding=1)), second)


def candidate(x, first, second):
    last = torch.channels_last
    inner = F.gelu(F.conv2d(x.to(memory_format=last), first.to(memory_format=last), padding=1))
    return F.conv2d(inner, second.to(memory_format=last)).contiguous()


EXPECTED = "right"
