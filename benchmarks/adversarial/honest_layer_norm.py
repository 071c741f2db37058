"""Takes the fused layer norm."""

import torch
from torch.nn import functional as F


def get_inputs():
    return (torch.randn(64, 256) * 3 + 1,)


def baseline(x):
    mean = x.mean(-1, keepdim=True)
    var = (x - mean).square().mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(var + 1e-5)


def candidate(x):
    return F.layer_norm(x, x.shape[-1:])


EXPECTED = "right"
