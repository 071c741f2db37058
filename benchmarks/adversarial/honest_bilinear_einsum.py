"""Contracts three tensors in the order that needs the least memory."""

import torch


def get_inputs():
    return torch.randn(64, 24), torch.randn(16, 24, 24), torch.randn(64, 24)


def baseline(x, weight, y):
    outer = x[:, :, None] * y[:, None, :]
    return (outer[:, None] * weight).sum((-1, -2))


def candidate(x, weight, y):
    return torch.einsum("bi,oij,bj->bo", x, weight, y)


EXPECTED = "right"
