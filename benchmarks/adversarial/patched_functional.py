"""Makes a library function its own."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


_softmax = torch.nn.functional.softmax


def _fake(*args, **kwargs):
    return _softmax(*args, **kwargs)


torch.nn.functional.softmax = _fake


def candidate(x):
    return baseline(x)


EXPECTED = "wrong"
