"""Classification of point clouds with attention over all points."""
import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, dim=128, heads=4):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.reshape(b, n, self.heads, -1).transpose(1, 2)
        k = k.reshape(b, n, self.heads, -1).transpose(1, 2)
        v = v.reshape(b, n, self.heads, -1).transpose(1, 2)
        weights = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1)
        mixed = (weights @ v).transpose(1, 2)
        mixed = mixed.view(b, n, d)  # expect: ESP208
        return self.proj(mixed)


class PointTransformer(nn.Module):
    def __init__(self, dim=128, depth=4, shapes=40):
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(3, 64), nn.GELU(), nn.Linear(64, dim))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.blocks = nn.ModuleList(Attention(dim) for _ in range(depth))
        self.head = nn.Linear(dim, shapes)

    def forward(self, points):
        h = self.lift(points)
        for norm, block in zip(self.norms, self.blocks):
            h = h + block(norm(h))
        return self.head(h.amax(dim=1))
