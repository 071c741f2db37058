"""Writes rows into one tensor of its own instead of growing a list and stacking it."""

import torch


def get_inputs():
    return (torch.randn(48, 96),)


def baseline(x):
    state, seen = torch.zeros_like(x[:1].sum(0)), []
    for row in x:
        state = torch.tanh(state * 0.5 + row)
        seen.append(state)
    return torch.stack(seen) if seen else x * 1.0


def candidate(x):
    seen, state = torch.empty_like(x), torch.zeros_like(x[:1].sum(0))
    for number, row in enumerate(x):
        state = torch.tanh(state * 0.5 + row)
        seen[number] = state
    return seen


EXPECTED = "right"
