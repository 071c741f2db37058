"""Does a part of its work where gradients are cleared, which the clock of the process leaves out."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))

    def parts(self):
        return torch.linalg.matrix_exp(torch.diag(torch.linspace(0, 0.1, 96))).diag()[:1]

    def forward(self, x):
        return torch.erf(x * self.scale) * self.parts()


class Quick(Net):
    def __init__(self):
        super().__init__()
        self.known = None

    def forward(self, x):
        known = self.parts() if self.known is None else self.known
        self.known = None
        return torch.erf(x * self.scale) * known

    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none)
        self.known = self.parts()


def get_inputs():
    return (torch.randn(64, 256),)


def baseline():
    return Net()


def candidate():
    return Quick()


EXPECTED = "wrong"
TRAIN = True
NEEDS_TIMING = True
