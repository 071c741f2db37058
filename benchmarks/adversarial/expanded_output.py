"""Returns one row expanded where the baseline returns all rows."""

import torch


def get_inputs():
    return (torch.randn(256, 512),)


def baseline(x):
    return x.mean(0, keepdim=True).expand_as(x).contiguous()


def candidate(x):
    return x.mean(0, keepdim=True).expand_as(x)


EXPECTED = "wrong"
