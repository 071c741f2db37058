import torch
from torch import nn


class SparseExperts(nn.Module):
    def __init__(self, dim, n):
        super().__init__()
        self.choose = nn.Linear(dim, n)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n))

    def forward(self, x):
        chosen = self.choose(x).argmax(-1)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = chosen == number
            if rows.any():
                result[rows] = expert(x[rows])
        return result


class Model(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.inp = nn.Embedding(30, dim)
        self.sparse = SparseExperts(dim, 3)
        self.out = nn.Linear(dim, 30)

    def forward(self, ids):
        return self.out(self.sparse(self.inp(ids)))
