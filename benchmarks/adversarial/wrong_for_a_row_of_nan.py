"""Takes NaN out of rows that hold nothing else."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    y = torch.tanh(x) * torch.sigmoid(x)
    return torch.where(y.isnan().all(-1, keepdim=True), 0.0, y) if y.dim() == 2 and y.numel() else y


EXPECTED = "wrong"
