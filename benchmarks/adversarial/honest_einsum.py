"""Writes a product as an einsum."""

import torch


def get_inputs():
    return torch.randn(8, 64, 32), torch.randn(8, 32, 64)


def baseline(x, y):
    return torch.bmm(x, y)


def candidate(x, y):
    return torch.einsum("bij,bjk->bik", x, y)


EXPECTED = "right"
