"""Computes in the memory of its input."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    gate = torch.sigmoid(x)
    x.tanh_()
    return x * gate


EXPECTED = "wrong"
