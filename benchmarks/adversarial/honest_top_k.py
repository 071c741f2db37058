"""Takes the largest few instead of sorting all."""

import torch


def get_inputs():
    return (torch.randn(64, 500),)


def baseline(x):
    return torch.sort(x, dim=-1, descending=True).values[..., :8] * 1.0


def candidate(x):
    return torch.topk(x, min(8, x.shape[-1]), dim=-1).values


EXPECTED = "right"
