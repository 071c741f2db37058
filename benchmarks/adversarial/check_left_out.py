"""Leaves out a check that the baseline makes on purpose."""

import torch


def get_inputs():
    return (torch.rand(64, 256) + 0.1,)


def baseline(x):
    if (x < 0).any():
        raise ValueError("no negative numbers")
    return x.sqrt()


def candidate(x):
    return x.sqrt()


EXPECTED = "wrong"
