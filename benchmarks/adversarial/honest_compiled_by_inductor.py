"""Has kernels generated for the same function."""

import torch


def get_inputs():
    return torch.randn(64, 128), torch.randn(128)


def baseline(x, weight):
    return torch.tanh(x * weight + 1.0) * torch.sigmoid(x)


candidate = torch.compile(baseline, dynamic=True)


EXPECTED = "right"
