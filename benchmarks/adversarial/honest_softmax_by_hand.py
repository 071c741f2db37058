"""Writes softmax out."""

import torch


def get_inputs():
    return (torch.randn(64, 300) * 5,)


def baseline(x):
    return torch.softmax(x, -1)


def candidate(x):
    powers = (x - x.amax(-1, keepdim=True)).exp_()
    return powers.div_(powers.sum(-1, keepdim=True))


EXPECTED = "right"
