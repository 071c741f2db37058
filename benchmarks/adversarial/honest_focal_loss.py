"""Weighs a loss by one interpolation instead of four products."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(64, 20), torch.randint(0, 2, (64, 20)).float()


def baseline(x, y):
    loss = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    p = torch.sigmoid(x)
    rest = p * (1 - y) + (1 - p) * y
    return (rest**2 * loss).mean()


def candidate(x, y):
    loss = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    rest = torch.lerp(torch.sigmoid(x), torch.sigmoid(-x), y)
    return rest.square_().mul(loss).mean() if not rest.requires_grad else (rest.square() * loss).mean()


EXPECTED = "right"
