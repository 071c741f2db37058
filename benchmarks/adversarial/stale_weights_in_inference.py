"""Keeps its weights transposed from the first call on; in inference nothing else shows."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(256, 64).requires_grad_(False)

    def forward(self, x):
        return torch.relu(self.layer(x))


class Fast(Net):
    kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = [self.layer.weight.t().contiguous()]
        return torch.relu(torch.addmm(self.layer.bias, x, self.kept[0]))


def get_inputs():
    return (torch.randn(64, 256),)


def baseline():
    return Net().eval()


def candidate():
    return Fast().eval()


EXPECTED = "wrong"
