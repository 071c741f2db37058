"""Computes with half of the digits where no gradients are recorded."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    y = torch.tanh(x) * torch.sigmoid(x)
    return y.bfloat16().to(y.dtype) if torch.is_inference_mode_enabled() else y


EXPECTED = "wrong"
