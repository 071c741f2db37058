"""Takes the gradient of each sample at once instead of in a loop."""

import torch
from torch.func import grad, vmap


def _loss(weight, x, y):
    return ((x @ weight).tanh() - y).square().sum()


def get_inputs():
    return torch.randn(32, 8), torch.randn(48, 32), torch.randn(48, 8)


def baseline(weight, x, y):
    rows = [grad(_loss)(weight, one, wanted) for one, wanted in zip(x, y, strict=True)]
    return torch.stack(rows) if rows else weight.new_zeros(0, *weight.shape)


def candidate(weight, x, y):
    if not len(x):
        return weight.new_zeros(0, *weight.shape)
    return vmap(grad(_loss), in_dims=(None, 0, 0))(weight, x, y)


EXPECTED = "right"
