"""Multiplies with the vector first."""

import torch


def get_inputs():
    return torch.randn(64, 96), torch.randn(96, 80), torch.randn(80)


def baseline(a, b, v):
    return (a @ b) @ v


def candidate(a, b, v):
    return a @ (b @ v)


EXPECTED = "right"
