"""Lets later products be less exact."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    torch.set_float32_matmul_precision("medium")
    return baseline(x)


EXPECTED = "wrong"
