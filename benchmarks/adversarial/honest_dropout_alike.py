"""Draws the same random numbers."""

import torch
from torch.nn import functional as F


def get_inputs():
    return (torch.randn(64, 512),)


def baseline(x):
    return F.dropout(torch.relu(x), 0.1)


def candidate(x):
    return F.dropout(x.clamp_min(0), 0.1)


EXPECTED = "right"
