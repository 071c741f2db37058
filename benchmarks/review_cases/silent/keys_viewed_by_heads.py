"""Set transformer pooling over point features."""
import math
import torch
from torch import nn


class PoolingAttention(nn.Module):
    def __init__(self, dim, heads, seeds):
        super().__init__()
        self.heads = heads
        self.dim = dim
        self.seed = nn.Parameter(torch.randn(1, seeds, dim) * 0.02)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, points):
        batch, count, _ = points.shape
        seeds = self.seed.expand(batch, -1, -1)
        head_dim = self.dim // self.heads
        q = self.to_q(seeds).view(batch, -1, self.heads, head_dim).transpose(1, 2)
        k = self.to_k(points).view(batch, self.heads, count, head_dim)  # expect: ESP209
        v = self.to_v(points).view(batch, count, self.heads, head_dim).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(head_dim)
        weights = scores.softmax(dim=-1)
        pooled = (weights @ v).transpose(1, 2).reshape(batch, -1, self.dim)
        return self.proj(pooled)


class PointClassifier(nn.Module):
    def __init__(self, classes, dim=128):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3, dim), nn.GELU(), nn.Linear(dim, dim))
        self.pool = PoolingAttention(dim, 4, 8)
        self.head = nn.Linear(8 * dim, classes)

    def forward(self, points):
        return self.head(self.pool(self.embed(points)).flatten(1))
