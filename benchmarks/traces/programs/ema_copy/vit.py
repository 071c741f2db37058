import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, dim * 3)
        self.last_map = None

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        a = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1)
        self.last_map = a
        return a @ v


class Net(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.a1, self.a2 = Attn(dim), Attn(dim)
        self.cls = nn.Linear(dim, 3)

    def forward(self, x):
        return self.cls(self.a2(self.a1(x)).mean(1))
