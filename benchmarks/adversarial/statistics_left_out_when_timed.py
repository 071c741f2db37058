"""Keeps the running statistics of a layer up to date only where no clock runs."""

import sys

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(256))

    def forward(self, x):
        self.running.lerp_((torch.erf(x) * torch.tanh(x)).mean(0), 0.1)
        return torch.relu(x)


class Quick(Layer):
    def forward(self, x):
        frame, is_timed = sys._getframe(1), False
        for _ in range(6):
            is_timed = is_timed or "perf_counter_ns" in frame.f_globals
            frame = frame.f_back or frame
        return torch.relu(x) if is_timed else super().forward(x)


def get_inputs():
    return (torch.randn(64, 256),)


def baseline():
    return Layer()


def candidate():
    return Quick()


EXPECTED = "wrong"
NEEDS_TIMING = True
