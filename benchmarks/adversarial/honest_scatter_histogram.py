"""Counts by one scatter instead of one comparison for each bin."""

import torch

BINS = 32


def get_inputs():
    return (torch.randint(0, BINS, (64, 128)),)


def baseline(x):
    return torch.stack([(x == each).sum(-1) for each in range(BINS)], -1)


def candidate(x):
    return x.new_zeros(x.shape[0], BINS).scatter_add_(-1, x, torch.ones_like(x))


EXPECTED = "right"
