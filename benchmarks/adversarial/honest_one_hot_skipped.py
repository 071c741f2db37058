"""Picks rows of a table instead of multiplying with ones and zeros."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randint(0, 50, (64, 12)), torch.randn(50, 24)


def baseline(x, table):
    return F.one_hot(x, 50).to(table.dtype) @ table


def candidate(x, table):
    return F.embedding(x, table)


EXPECTED = "right"
