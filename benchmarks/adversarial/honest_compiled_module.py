"""Compiles a module of the same weights."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 8)

    def forward(self, x):
        return self.second(torch.nn.functional.silu(self.first(x)))


class Fast(Net):
    def __init__(self):
        super().__init__()
        self._run = torch.compile(super().forward, backend="aot_eager", dynamic=True)

    def forward(self, x):
        return self._run(x)


def get_inputs():
    return (torch.randn(48, 32),)


def baseline():
    return Net()


def candidate():
    return Fast()


EXPECTED = "right"
