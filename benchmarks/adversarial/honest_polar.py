"""Multiplies complex numbers by hand."""

import torch


def get_inputs():
    return torch.randn(64, 256, dtype=torch.complex64), torch.randn(64, 256, dtype=torch.complex64)


def baseline(x, y):
    return x * y


def candidate(x, y):
    return torch.complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


EXPECTED = "right"
