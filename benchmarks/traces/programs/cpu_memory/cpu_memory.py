import torch
from torch import nn


class Pairwise(nn.Module):
    def forward(self, x):
        diff = x.unsqueeze(1) - x.unsqueeze(0)
        return diff.pow(2).sum(-1)


Pairwise()(torch.zeros(1, 1).expand(4_000_000, 64))
