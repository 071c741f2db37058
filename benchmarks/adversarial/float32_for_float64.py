"""Computes float64 inputs in float32."""

import torch


def get_inputs():
    return torch.randn(96, 128, dtype=torch.float64), torch.randn(128, 96, dtype=torch.float64)


def baseline(x, w):
    return x @ w


def candidate(x, w):
    return (x.float() @ w.float()).to(x.dtype)


EXPECTED = "wrong"
