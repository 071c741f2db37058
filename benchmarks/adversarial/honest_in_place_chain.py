"""Works on in its first own result instead of making a new tensor at each step."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return ((x * 0.5 + 1.0).clamp(-3, 3) / 6.0) * 2.0


def candidate(x):
    return (x * 0.5).add_(1.0).clamp_(-3, 3).div_(6.0).mul_(2.0)


EXPECTED = "right"
