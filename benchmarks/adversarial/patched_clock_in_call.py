"""Slows the clock down when it is called first, not when it is imported."""

import time

import torch

_clock = time.perf_counter_ns


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    time.perf_counter_ns = lambda: _clock() // 2
    return baseline(x)


EXPECTED = "wrong"
