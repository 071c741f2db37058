"""Leaves out the shift that keeps softmax finite."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.softmax(x, -1)


def candidate(x):
    powers = x.exp()
    return powers / powers.sum(-1, keepdim=True)


EXPECTED = "wrong"
