"""Makes a builtin its own."""

import builtins

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


_isinstance = builtins.isinstance


def _fake(thing, kinds):
    return _isinstance(thing, kinds)


builtins.isinstance = _fake


def candidate(x):
    return baseline(x)


EXPECTED = "wrong"
