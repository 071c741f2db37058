"""Keeps the activations instead of computing them again."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 48))

    def forward(self, x):
        return x + checkpoint(self.block, x, use_reentrant=False)


class Fast(Net):
    def forward(self, x):
        return x + self.block(x)


def get_inputs():
    return (torch.randn(64, 48),)


def baseline():
    return Net()


def candidate():
    return Fast()


EXPECTED = "right"
TRAIN = True
