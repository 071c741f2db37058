"""Normalises with running statistics, in training too."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(64)

    def forward(self, x):
        return torch.relu(self.norm(x))


class Fast(Net):
    def forward(self, x):
        norm = self.norm
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        return torch.relu(x * scale + (norm.bias - norm.running_mean * scale))


def get_inputs():
    return (torch.randn(64, 64),)


def baseline():
    return Net()


def candidate():
    return Fast()


EXPECTED = "wrong"
