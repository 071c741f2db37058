"""Unfolds a convolution into a product."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(2, 8, 16, 16), torch.randn(12, 8, 3, 3)


def baseline(x, w):
    return F.conv2d(x, w, padding=1)


def candidate(x, w):
    columns = F.unfold(x, w.shape[-2:], padding=1)
    return (w.flatten(1) @ columns).view(x.shape[0], w.shape[0], *x.shape[-2:])


EXPECTED = "right"
