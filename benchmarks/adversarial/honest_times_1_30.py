"""Does the same work 10 times where the baseline does it 13 times."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def _work(x, times):
    y = x
    for _ in range(times):
        y = torch.tanh(x)
    return y


def baseline(x):
    return _work(x, 13)


def candidate(x):
    return _work(x, 10)


EXPECTED = "right"
RATIO = 1.3
