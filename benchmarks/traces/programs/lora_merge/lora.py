import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        n_out, n_in = base.weight.shape
        self.a = nn.Parameter(torch.randn(rank, n_in) * 0.01)
        self.b = nn.Parameter(torch.zeros(n_out, rank))

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b
