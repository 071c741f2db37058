import torch
from torch import nn


class Clamp(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


torch.export.export(Clamp(), (torch.ones(3),))
