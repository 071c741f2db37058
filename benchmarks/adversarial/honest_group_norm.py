"""Takes the fused group norm."""

import torch
from torch.nn import functional as F


def get_inputs():
    return torch.randn(8, 16, 12, 12), torch.randn(16), torch.randn(16)


def baseline(x, weight, bias):
    groups = x.reshape(x.shape[0], 4, -1)
    centred = groups - groups.mean(-1, keepdim=True)
    scaled = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
    return scaled.reshape(x.shape) * weight[:, None, None] + bias[:, None, None]


def candidate(x, weight, bias):
    return F.group_norm(x, 4, weight, bias, 1e-5)


EXPECTED = "right"
