"""Returns its input where the baseline returns a copy."""

import torch


def get_inputs():
    return (torch.randn(256, 512),)


def baseline(x):
    return x.clone()


def candidate(x):
    return x


EXPECTED = "wrong"
