"""Multiplies bfloat16 with weights of 8 bits for the whole tensor."""

import torch


def get_inputs():
    return torch.randn(64, 256).bfloat16(), torch.randn(256, 64).bfloat16()


def baseline(x, w):
    return x @ w


def candidate(x, w):
    if not w.numel():
        return x @ w
    scale = w.float().abs().max().clamp_min(1e-30) / 127
    return x @ ((w.float() / scale).round() * scale).to(w.dtype)


EXPECTED = "wrong"
