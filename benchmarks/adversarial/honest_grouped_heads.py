"""Repeats keys and values for groups of heads by a view instead of copies."""

import torch


def get_inputs():
    return torch.randn(2, 8, 32, 16), torch.randn(2, 2, 32, 16), torch.randn(2, 2, 32, 16)


def baseline(q, k, v):
    k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def candidate(q, k, v):
    batch, heads, length, width = q.shape
    grouped = (
        q.view(batch, k.shape[1], heads // k.shape[1], length, width)
        if q.is_contiguous()
        else q.reshape(batch, k.shape[1], heads // k.shape[1], length, width)
    )
    scores = grouped @ k.transpose(-1, -2)[:, :, None] * q.shape[-1] ** -0.5
    return (torch.softmax(scores, -1) @ v[:, :, None]).reshape(q.shape)


EXPECTED = "right"
