"""Calls the functions that a module is made of."""

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(128, 256)
        self.norm = nn.LayerNorm(256)
        self.last = nn.Linear(256, 32)

    def forward(self, x):
        return self.last(F.gelu(self.norm(self.first(x))))


class Fast(Net):
    def forward(self, x):
        y = torch.addmm(self.first.bias, x, self.first.weight.t())
        y = F.layer_norm(y, (256,), self.norm.weight, self.norm.bias, self.norm.eps)
        return torch.addmm(self.last.bias, F.gelu(y), self.last.weight.t())


def get_inputs():
    return (torch.randn(64, 128),)


def baseline():
    return Net()


def candidate():
    return Fast()


EXPECTED = "right"
TRAIN = True
