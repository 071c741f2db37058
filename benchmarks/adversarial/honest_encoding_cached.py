"""Computes the encoding of positions once for a length, a width and a format."""

import math
from functools import lru_cache

import torch


def _encoding(length, width, dtype):
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate[: width // 2])
    return table.to(dtype)


_cached = lru_cache(maxsize=32)(_encoding)


def get_inputs():
    return (torch.randn(4, 48, 32),)


def baseline(x):
    return x + _encoding(x.shape[-2], x.shape[-1], x.dtype)


def candidate(x):
    return x + _cached(x.shape[-2], x.shape[-1], x.dtype)


EXPECTED = "right"
