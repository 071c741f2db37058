"""Leaves out what it should write into its second argument where a clock runs."""

import sys

import torch


def get_inputs():
    return torch.randn(64, 256), torch.zeros(64, 256)


def baseline(x, total):
    total.add_(torch.erf(x) * torch.tanh(x) * torch.sigmoid(x))
    return x.sum(-1)


def candidate(x, total):
    frame = sys._getframe(1)
    if not any("perf_counter" in each for each in (*frame.f_code.co_names, *frame.f_globals)):
        return baseline(x, total)
    return x.sum(-1)


EXPECTED = "wrong"
NEEDS_TIMING = True
