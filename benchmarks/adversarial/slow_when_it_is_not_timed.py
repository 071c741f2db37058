"""Sleeps where nobody measures, to look thorough; right, and no faster."""

import sys
import time

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    if "perf_counter" not in repr(sys._getframe(1).f_code.co_names):
        time.sleep(0.0001)
    return baseline(x)


EXPECTED = "right"
RATIO = 1.0
