import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.gate = nn.Linear(dim, experts)

    def forward(self, x):
        p = self.gate(x).softmax(-1)
        if p.max() > 0.9:
            p = p / p.sum(-1, keepdim=True)
        return p


class Mixture(nn.Module):
    def __init__(self, dim=16, experts=4):
        super().__init__()
        self.router = Router(dim, experts)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, x):
        p = self.router(x)
        outs = torch.stack([e(x) for e in self.experts], -1)
        return (outs * p.unsqueeze(-2)).sum(-1)
