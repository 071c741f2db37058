"""Holds one weight where the baseline holds three, and knows how to load them."""

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(64, 64)
        self.k = nn.Linear(64, 64)
        self.v = nn.Linear(64, 64)

    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


class Fast(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.register_load_state_dict_pre_hook(_fused)

    def forward(self, x):
        return F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1))


def _fused(module, state, prefix, *_):
    if prefix + "q.weight" in state:
        for part in ("weight", "bias"):
            state[f"{prefix}qkv.{part}"] = torch.cat([state.pop(f"{prefix}{each}.{part}") for each in "qkv"])


def get_inputs():
    return (torch.randn(4, 32, 64),)


def baseline():
    return Net()


def candidate():
    return Fast()


EXPECTED = "right"
