"""Returns a subclass of torch.Tensor."""

import torch


class Fast(torch.Tensor):
    pass


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    return baseline(x).as_subclass(Fast)


EXPECTED = "wrong"
