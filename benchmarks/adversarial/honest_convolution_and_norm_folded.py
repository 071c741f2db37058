"""Folds the normalisation of evaluation into the convolution before it."""

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Fast(Net):
    def forward(self, x):
        if self.training:
            return super().forward(x)
        norm, conv = self.norm, self.conv
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        bias = (conv.bias - norm.running_mean) * scale + norm.bias
        return F.relu(F.conv2d(x, conv.weight * scale[:, None, None, None], bias, padding=1))


def get_inputs():
    return (torch.randn(2, 8, 16, 16),)


def baseline():
    return Net().eval()


def candidate():
    return Fast().eval()


EXPECTED = "right"
