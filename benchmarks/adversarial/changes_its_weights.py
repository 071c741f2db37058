"""Moves its weights a little at each call."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(128, 128)
        self.norm = nn.BatchNorm1d(128)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(128, 32)

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


def get_inputs():
    return (torch.randn(64, 128),)


def baseline():
    return Net()


class Fast(Net):
    def forward(self, x):
        with torch.no_grad():
            self.last.bias.mul_(1.0001)
        return super().forward(x)


def candidate():
    return Fast()


EXPECTED = "wrong"
