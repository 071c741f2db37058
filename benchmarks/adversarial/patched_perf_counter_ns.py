"""Slows the clock down that everybody measures with."""

import time

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


_clock = time.perf_counter_ns


def _fake():
    return _clock() // 2


time.perf_counter_ns = _fake


def candidate(x):
    return baseline(x)


EXPECTED = "wrong"
