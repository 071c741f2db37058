"""Runs convolutions on channels-last memory, and returns the usual layout."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Conv2d(8, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class ChannelsLast(Block):
    def forward(self, x):
        return super().forward(x.contiguous(memory_format=torch.channels_last)).contiguous()


def get_inputs():
    return (torch.randn(4, 8, 16, 16),)


def baseline():
    return Block()


def candidate():
    return ChannelsLast()


EXPECTED = "right"
