"""Takes views where the baseline copies, inside."""

import torch


def get_inputs():
    return (torch.randn(64, 512),)


def baseline(x):
    parts = [part.clone() for part in x.chunk(2, -1)]
    return parts[0].contiguous() * parts[1].contiguous()


def candidate(x):
    left, right = x.chunk(2, -1)
    return left * right


EXPECTED = "right"
