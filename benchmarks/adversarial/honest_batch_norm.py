"""Normalises a batch and keeps statistics by another call."""

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(128, 256)
        self.norm = nn.BatchNorm1d(256)

    def forward(self, x):
        return torch.relu(self.norm(self.first(x)))


class Fast(Net):
    def forward(self, x):
        return self.norm(F.linear(x, self.first.weight, self.first.bias)).relu_()


def get_inputs():
    return (torch.randn(64, 128),)


def baseline():
    return Net()


def candidate():
    return Fast()


EXPECTED = "right"
TRAIN = True
