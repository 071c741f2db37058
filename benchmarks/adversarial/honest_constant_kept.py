"""Keeps a table that depends on no input."""

import torch


def get_inputs():
    return (torch.randn(8, 64, 32),)


def _table(rows, columns, dtype):
    at = torch.arange(rows, dtype=torch.float64)[:, None] / 10000 ** (
        torch.arange(columns, dtype=torch.float64) / columns
    )
    return at.sin().to(dtype)


_kept = {}


def baseline(x):
    return x + _table(*x.shape[-2:], x.dtype)


def candidate(x):
    key = (*x.shape[-2:], x.dtype)
    if key not in _kept:
        _kept[key] = _table(*key)
    return x + _kept[key]


EXPECTED = "right"
