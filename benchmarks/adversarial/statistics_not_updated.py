"""Normalises a batch and keeps no running statistics."""

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
        norm = self.norm
        is_training = self.training or not norm.track_running_stats
        mean, var = (None, None) if is_training else (norm.running_mean, norm.running_var)
        y = nn.functional.batch_norm(self.first(x), mean, var, norm.weight, norm.bias, is_training, 0.0, norm.eps)
        return self.last(self.drop(torch.relu(y)))


def candidate():
    return Fast()


EXPECTED = "wrong"
TRAIN = True
