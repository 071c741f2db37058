"""Makes a method of tensors its own."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


_clone = torch.Tensor.clone


def _fake(self, *args, **kwargs):
    return _clone(self, *args, **kwargs)


torch.Tensor.clone = _fake


def candidate(x):
    return baseline(x)


EXPECTED = "wrong"
