"""Code that is one graph."""

import functools

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def arithmetic(x):  # clean
    return torch.relu(x) * 2 + 1


def names_and_defaults(x, *, scale=2.0, is_on=True):  # clean
    return x * scale if is_on else x


partly_applied = functools.partial(names_and_defaults, scale=3.0)  # clean


def several_results(x):  # clean
    return {"sum": x.sum(), "parts": (x[:2], x[2:])}


def without_gradients(x):  # clean
    with torch.no_grad():
        return x.exp().sum()


class Attention(nn.Module):  # clean
    def __init__(self):
        super().__init__()
        self.mixed = nn.Linear(8, 24)

    def forward(self, x):
        query, key, value = self.mixed(x).chunk(3, dim=-1)
        return nn.functional.scaled_dot_product_attention(query, key, value)


class Checkpointed(nn.Module):  # clean
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)
