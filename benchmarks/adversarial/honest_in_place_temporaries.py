"""Writes into its own intermediate results."""

import torch


def get_inputs():
    return (torch.randn(64, 512),)


def baseline(x):
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.std(-1, keepdim=True) + 1e-5)
    return torch.tanh(scaled * 0.5) + 1


def candidate(x):
    result = x - x.mean(-1, keepdim=True)
    result /= result.std(-1, keepdim=True).add_(1e-5)
    return result.mul_(0.5).tanh_().add_(1)


EXPECTED = "right"
