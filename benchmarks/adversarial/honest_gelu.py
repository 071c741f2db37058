"""Takes the fused function."""

import torch
from torch.nn import functional as F


def get_inputs():
    return (torch.randn(64, 512),)


def baseline(x):
    return 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))


def candidate(x):
    return F.gelu(x)


EXPECTED = "right"
