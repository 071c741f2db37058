"""Has another default for an argument that the example gives."""

import torch


def get_inputs():
    return torch.randn(64, 128), 1e-5


def baseline(x, eps=1e-5):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def candidate(x, eps=1e-2):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


EXPECTED = "wrong"
