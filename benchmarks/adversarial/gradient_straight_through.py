"""Passes the gradient through a function as if it were not there."""

import torch


def get_inputs():
    return torch.randn(32, 128, requires_grad=True), torch.randn(128, 64, requires_grad=True)


def baseline(x, w):
    return torch.tanh(x @ w)


def candidate(x, w):
    product = x @ w
    return product + (torch.tanh(product) - product).detach()


EXPECTED = "wrong"
TRAIN = True
