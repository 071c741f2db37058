import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(n_in, 16), nn.ReLU(), nn.Linear(16, n_out))

    def forward(self, x):
        return self.seq(x)


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = Tower(6, 12)
        self.label_head = nn.Linear(12, 4)
        self.domain_head = nn.Linear(12, 2)

    def forward(self, x, with_domain=False):
        h = self.trunk(x)
        out = {"label": self.label_head(h)}
        if with_domain:
            out["domain"] = self.domain_head(h)
        return out
