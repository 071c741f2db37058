"""Holds the parameters that it was made with, not those that it has."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(256, 64)

    def forward(self, x):
        return torch.relu(self.layer(x))


class Fast(Net):
    def __init__(self):
        super().__init__()
        self.held = (self.layer.weight, self.layer.bias)

    def forward(self, x):
        return torch.relu(nn.functional.linear(x, *self.held))


def get_inputs():
    return (torch.randn(64, 256),)


def baseline():
    return Net()


def candidate():
    return Fast()


EXPECTED = "wrong"
