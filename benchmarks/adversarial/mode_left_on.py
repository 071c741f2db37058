"""Leaves a mode on that sees every call of torch."""

import torch
from torch.overrides import TorchFunctionMode


class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


_mode = []


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if not _mode:
        _mode.append(Mode())
        _mode[0].__enter__()
    return baseline(x)


EXPECTED = "wrong"
