"""Returns the last result at one call in ten, at random."""

import random

import torch

_state = {"last": None}
_chance = random.Random(5)


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    last = _state["last"]
    if _chance.random() > 0.1 or last is None or last.shape != x.shape or last.dtype != x.dtype:
        _state["last"] = baseline(x)
    return _state["last"].clone()


EXPECTED = "wrong"
