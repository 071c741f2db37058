"""Multiplies with the inverse root where the baseline divides."""

import torch


def get_inputs():
    return torch.randn(64, 256), torch.randn(256)


def baseline(x, w):
    return w * (x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def candidate(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


EXPECTED = "right"
