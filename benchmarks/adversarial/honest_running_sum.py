"""Takes cumsum instead of a loop that adds."""

import torch


def get_inputs():
    return (torch.randn(16, 200),)


def baseline(x):
    total, rows = torch.zeros_like(x[..., 0]), []
    for each in x.unbind(-1):
        total = total + each
        rows.append(total)
    return torch.stack(rows, -1)


def candidate(x):
    return x.cumsum(-1)


EXPECTED = "right"
