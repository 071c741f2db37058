"""Takes one fused multiplication and addition, and clamps in place."""

import torch


def get_inputs():
    return torch.randn(128, 256), torch.randn(256), torch.randn(256)


def baseline(x, scale, shift):
    scaled = x * scale
    shifted = scaled + shift
    return torch.relu(shifted)


def candidate(x, scale, shift):
    return torch.addcmul(shift, x, scale).clamp_(min=0)


EXPECTED = "right"
