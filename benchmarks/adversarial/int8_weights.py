"""Multiplies with weights of 8 bits."""

import torch


def get_inputs():
    return torch.randn(64, 256), torch.randn(256, 64)


def baseline(x, w):
    return x @ w


def candidate(x, w):
    if not w.numel():
        return x @ w
    scale = w.abs().amax(0, keepdim=True).clamp_min(1e-30) / 127
    return x @ ((w / scale).round() * scale)


EXPECTED = "wrong"
