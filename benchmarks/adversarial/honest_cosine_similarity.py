"""Divides rows by their lengths before the product instead of dividing the products."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(64, 48), torch.randn(80, 48)


def baseline(x, y):
    lengths = x.norm(dim=-1)[:, None].clamp(min=1e-8) * y.norm(dim=-1)[None].clamp(min=1e-8)
    return (x @ y.T) / lengths


def candidate(x, y):
    return F.normalize(x, dim=-1, eps=1e-8) @ F.normalize(y, dim=-1, eps=1e-8).T


EXPECTED = "right"
