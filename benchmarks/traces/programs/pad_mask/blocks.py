import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def split(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.heads, self.size).transpose(1, 2)

    def forward(self, x, bias=None):
        q, k, v = (self.split(t) for t in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) * self.size ** -0.5
        if bias is not None:
            scores = scores + bias
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Stack(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(SelfAttention(dim, heads) for _ in range(depth))

    def forward(self, x, pad):
        bias = torch.zeros(pad.shape).masked_fill(pad, float("-inf"))
        for block in self.blocks:
            x = x + block(x, bias)
        return x
