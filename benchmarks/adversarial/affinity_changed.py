"""Moves itself to one processor, which changes nothing in a process that was given that one."""

import os

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))} if len(os.sched_getaffinity(0)) > 1 else {0})
    return baseline(x)


EXPECTED = "wrong"
NEEDS_TIMING = True
