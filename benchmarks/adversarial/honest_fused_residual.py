"""Scales, shifts and adds in one operation instead of three."""

import torch


def get_inputs():
    return torch.randn(64, 256), torch.randn(64, 256), torch.randn(256)


def baseline(x, y, scale):
    return x + y * scale * 0.5


def candidate(x, y, scale):
    return torch.addcmul(x, y, scale, value=0.5)


EXPECTED = "right"
