"""Takes the largest of each group by one reduction instead of a loop."""

import torch

GROUPS = 20


def get_inputs():
    return torch.randn(400, 8), torch.randint(0, GROUPS, (400,))


def baseline(x, group):
    rows = []
    for each in range(GROUPS):
        chosen = x[group == each]
        rows.append(chosen.amax(0) if len(chosen) else x.new_full(x.shape[1:], -torch.inf))
    return torch.stack(rows)


def candidate(x, group):
    index = group[:, None].expand_as(x)
    return x.new_full((GROUPS, x.shape[1]), -torch.inf).scatter_reduce_(0, index, x, "amax")


EXPECTED = "right"
