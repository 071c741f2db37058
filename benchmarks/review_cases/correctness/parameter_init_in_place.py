import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class RelativeAttentionBias(nn.Module):
    def __init__(self, heads, window):
        super().__init__()
        self.table = nn.Parameter(torch.empty(2 * window - 1, heads))
        self.table.normal_(0, 0.02)  # expect: ESP106
        coords = torch.arange(window)
        self.register_buffer("index", coords[:, None] - coords[None, :] + window - 1, persistent=False)

    def forward(self):
        return self.table[self.index].permute(2, 0, 1)


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.bias = RelativeAttentionBias(heads, window)
        self.out = nn.Linear(dim, dim)
        self.gamma = nn.Parameter(torch.ones(dim))
        self.gamma *= 1e-4  # expect: ESP106

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1)) + self.bias()
        y = (F.softmax(att, dim=-1) @ v).transpose(1, 2).reshape(b, n, c)
        return x + self.gamma * self.out(y)
