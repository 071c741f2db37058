import torch
from torch import nn


class TransE(nn.Module):
    def __init__(self, entities, relations, dim=10):
        super().__init__()
        self.e = nn.Embedding(entities, dim)
        self.r = nn.Embedding(relations, dim)

    def normalise(self):
        self.e.weight /= self.e.weight.norm(dim=1, keepdim=True)

    def forward(self, h, r, t):
        return (self.e(h) + self.r(r) - self.e(t)).norm(dim=-1)
