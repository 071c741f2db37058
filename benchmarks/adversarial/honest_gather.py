"""Picks with gather where the baseline indexes."""

import torch


def get_inputs():
    return torch.randn(64, 100), torch.randint(0, 100, (64,))


def baseline(x, y):
    return x[torch.arange(len(y)), y], x.argmax(-1)


def candidate(x, y):
    return x.gather(-1, y[:, None])[:, 0], x.max(-1).indices


EXPECTED = "right"
