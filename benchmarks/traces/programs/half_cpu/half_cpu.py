import torch
from torch import nn


class Solver(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.a = nn.Parameter(torch.eye(n))

    def forward(self, b):
        return torch.linalg.solve(self.a, b)


Solver().half()(torch.randn(4, 1).half())
