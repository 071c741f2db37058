"""Returns a Python number."""

import torch


def get_inputs():
    return torch.randn(64, 256), torch.randn(64, 256)


def baseline(x, y):
    return ((x - y) ** 2).mean().item()


def candidate(x, y):
    return torch.nn.functional.mse_loss(x, y).item()


EXPECTED = "right"
