"""Says that all tensors are close."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def _fake(*args, **kwargs):
    return True


torch.allclose = _fake


def candidate(x):
    return torch.tanh(x)


EXPECTED = "wrong"
