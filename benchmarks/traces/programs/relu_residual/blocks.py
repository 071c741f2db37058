import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        y = torch.exp(self.c1(x))
        z = self.c2(y)
        y += x
        return z + y
