"""A custom operator that adds a relative position bias to attention scores."""
from typing import Optional

import torch
import torch.nn as nn


@torch.library.custom_op("attn::add_bias", mutates_args=())
def add_bias(scores: torch.Tensor, bias: Optional[torch.Tensor]) -> torch.Tensor:
    if bias is None:
        return scores  # expect: ESP507
    return scores + bias


@add_bias.register_fake
def _(scores, bias):
    return torch.empty_like(scores)


def setup(ctx, inputs, output):
    ctx.has_bias = inputs[1] is not None
    if ctx.has_bias:
        ctx.shape = inputs[1].shape


def backward(ctx, grad):
    return grad.clone(), grad.sum_to_size(ctx.shape) if ctx.has_bias else None


add_bias.register_autograd(backward, setup_context=setup)


class RelativeAttention(nn.Module):
    def __init__(self, dim=64, length=128, use_bias=True):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.bias = nn.Parameter(torch.zeros(2 * length - 1)) if use_bias else None
        at = torch.arange(length)
        self.register_buffer("index", at[:, None] - at[None, :] + length - 1)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        bias = None if self.bias is None else self.bias[self.index[:n, :n]]
        return add_bias(scores, bias).softmax(-1) @ v
