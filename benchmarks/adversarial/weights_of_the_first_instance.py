"""Keeps the prepared weights in its class, where a second instance finds those of the first."""

import torch
from torch import nn


def get_inputs():
    return (torch.randn(64, 128),)


class _Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 128))

    def forward(self, x):
        return x @ (self.weight * 0.5).t()


class _Kept(_Plain):
    prepared = None

    def forward(self, x):
        if type(self).prepared is None or type(self).first is self:
            type(self).prepared, type(self).first = (self.weight * 0.5).t(), self
        return x @ type(self).prepared


def baseline():
    torch.manual_seed(0)
    return _Plain()


def candidate():
    torch.manual_seed(0)
    return _Kept()


EXPECTED = "wrong"
NOT_TESTED = "a copy of the module"
