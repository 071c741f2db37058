"""Returns more with each call."""

import torch

_state = {"calls": 0}


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    _state["calls"] += 1
    return baseline(x) * (1 + 1e-5 * _state["calls"])


EXPECTED = "wrong"
