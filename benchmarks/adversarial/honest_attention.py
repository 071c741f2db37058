"""Takes fused attention."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(2, 4, 64, 32), torch.randn(2, 4, 64, 32), torch.randn(2, 4, 64, 32)


def baseline(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v


def candidate(q, k, v):
    return F.scaled_dot_product_attention(q, k, v).contiguous()


EXPECTED = "right"
