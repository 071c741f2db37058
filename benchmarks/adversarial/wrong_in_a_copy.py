"""Works in the instance that was made, and in no copy of it."""

import torch
from torch import nn


def get_inputs():
    return (torch.randn(64, 128),)


class _Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 128))

    def forward(self, x):
        return x @ self.weight.t()


class _Single(_Plain):
    def __init__(self):
        super().__init__()
        self.made_as = id(self)

    def forward(self, x):
        return super().forward(x) * (self.made_as == id(self))


def baseline():
    torch.manual_seed(0)
    return _Plain()


def candidate():
    torch.manual_seed(0)
    return _Single()


EXPECTED = "wrong"
NOT_TESTED = "a copy of the module"
