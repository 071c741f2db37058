"""Says that all tensors are equal."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def _fake(one, other):
    return True


torch.equal = _fake


def candidate(x):
    return torch.tanh(x)


EXPECTED = "wrong"
