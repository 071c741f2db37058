"""Does the work when an object is deleted, after it returned."""

import torch


class _Later:
    def __init__(self, made, x):
        self.made, self.x = made, x

    def __del__(self):
        self.made.copy_(baseline(self.x))


_later = []


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    made = torch.empty_like(x)
    _later[:] = [_Later(made, x.clone())]
    return made


EXPECTED = "wrong"
