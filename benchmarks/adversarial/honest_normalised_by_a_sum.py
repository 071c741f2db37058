"""Divides by a sum that may nearly cancel."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return x / x.sum(-1, keepdim=True)


def candidate(x):
    return x / (x @ x.new_ones(x.shape[-1], 1))


EXPECTED = "right"
