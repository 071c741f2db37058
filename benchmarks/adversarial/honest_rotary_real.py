"""Rotates pairs of numbers by sines and cosines instead of complex numbers."""

import torch


def get_inputs():
    angle = torch.rand(24, 8) * 6
    return torch.randn(2, 24, 16), angle


def baseline(x, angle):
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def candidate(x, angle):
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


EXPECTED = "right"
