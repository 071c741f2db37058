"""Drops what is small in a row of large numbers."""

import torch


def get_inputs():
    return (torch.randn(64, 256) * torch.logspace(0, -6, 256),)


def baseline(x):
    return x * 1.25


def candidate(x):
    return torch.where(x.abs() > 1e-5, x * 1.25, 0)


EXPECTED = "wrong"
