"""Adds integers in 32 bits, which suffice for the numbers of the example."""

import torch


def get_inputs():
    return (torch.randint(0, 1000, (64, 256)),)


def baseline(counts):
    return (counts * counts).sum(-1)


def candidate(counts):
    short = counts.to(torch.int32)
    return (short * short).sum(-1, dtype=torch.int32).to(torch.int64)


EXPECTED = "wrong"
NOT_TESTED = "integers larger than yours"
