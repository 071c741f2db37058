"""Does the same work 6 times where the baseline does it 6 times."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def _work(x, times):
    y = x
    for _ in range(times):
        y = torch.tanh(x)
    return y


def baseline(x):
    return _work(x, 6)


def candidate(x):
    return _work(x, 6)


EXPECTED = "right"
RATIO = 1.0
