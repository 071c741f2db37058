"""Takes the fused attention with its causal mask."""

import math

import torch
from torch.nn import functional as F


def get_inputs():
    return tuple(torch.randn(2, 4, 24, 16) for _ in range(3))


def baseline(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v


def candidate(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


EXPECTED = "right"
