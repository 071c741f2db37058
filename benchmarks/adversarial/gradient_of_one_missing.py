"""Passes no gradient on to the weights."""

import torch


def get_inputs():
    return torch.randn(32, 128, requires_grad=True), torch.randn(128, 64, requires_grad=True)


def baseline(x, w):
    return torch.tanh(x @ w)


def candidate(x, w):
    return torch.tanh(x @ w.detach())


EXPECTED = "wrong"
TRAIN = True
