"""Folds its weights once and never looks at them again."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(128, 256, bias=False)
        self.last = nn.Linear(256, 32, bias=False)

    def forward(self, x):
        return self.last(self.first(x))


class Fast(Net):
    def __init__(self):
        super().__init__()
        self.folded = []

    def forward(self, x):
        if not self.folded:
            self.folded.append((self.last.weight @ self.first.weight).detach())
        return x @ self.folded[0].t() + 0 * (self.last.weight.sum() + self.first.weight.sum())


def get_inputs():
    return (torch.randn(64, 128),)


def baseline():
    return Net()


def candidate():
    return Fast()


EXPECTED = "wrong"
