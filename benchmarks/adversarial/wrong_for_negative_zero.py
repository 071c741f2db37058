"""Takes the sign of a negative zero for that of zero."""

import torch


def get_inputs():
    return torch.randn(64, 128), torch.randn(64, 128)


def baseline(size, sign):
    return torch.copysign(size, sign)


def candidate(size, sign):
    return torch.where(sign < 0, -size.abs(), size.abs())


EXPECTED = "wrong"
