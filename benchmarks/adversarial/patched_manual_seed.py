"""Makes every seed the same one."""

import torch


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


_seed = torch.manual_seed


def _fake(seed):
    return _seed(0)


torch.manual_seed = _fake


def candidate(x):
    return baseline(x)


EXPECTED = "wrong"
