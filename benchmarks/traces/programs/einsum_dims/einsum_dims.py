import torch
from torch import nn


class Bilinear(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.randn(d, d))

    def forward(self, a, b):
        return torch.einsum("bd,de,be->b", a, self.w, b)


Bilinear(6)(torch.randn(3, 4, 6), torch.randn(3, 4, 6))
