"""Adds rows by their group at once instead of group by group."""

import torch

GROUPS = 24


def get_inputs():
    return torch.randn(600, 8), torch.randint(0, GROUPS, (600,))


def baseline(x, group):
    means = [x[group == each].sum(0) / max(int((group == each).sum()), 1) for each in range(GROUPS)]
    return torch.stack(means)


def candidate(x, group):
    count = torch.bincount(group, minlength=GROUPS).clamp(min=1).to(x.dtype)
    return x.new_zeros(GROUPS, x.shape[1]).index_add_(0, group, x) / count[:, None]


EXPECTED = "right"
