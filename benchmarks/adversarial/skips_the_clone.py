"""Leaves out the copy of what it will return twice."""

import torch


def get_inputs():
    return (torch.randn(256, 256),)


def baseline(x):
    y = torch.tanh(x)
    return y, y.clone()


def candidate(x):
    y = torch.tanh(x)
    return y, y


EXPECTED = "wrong"
