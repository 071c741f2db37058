import math

import torch
from torch import nn


class ResidueAttention(nn.Module):
    def __init__(self, dim: int = 256, heads: int = 8):
        super().__init__()
        assert dim % heads == 0
        self.h, self.d = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, pair_bias=None):
        B, L, C = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.h, self.d).permute(2, 0, 3, 1, 4)
        logits = q @ k.transpose(-2, -1) / math.sqrt(self.d)
        if pair_bias is not None:
            logits = logits + pair_bias
        attn = torch.softmax(logits, dim=1)  # expect: ESP202
        mixed = (attn @ v).transpose(1, 2)
        return self.proj(mixed.view(B, L, C))  # expect: ESP208


class ContactHead(nn.Module):
    def __init__(self, dim=256, hidden=32):
        super().__init__()
        self.left, self.right = nn.Linear(dim, hidden), nn.Linear(dim, hidden)
        self.conv = nn.Sequential(
            nn.Conv2d(2 * hidden, hidden, 3, padding=1), nn.ELU(), nn.Conv2d(hidden, 1, 3, padding=1)
        )

    def forward(self, x):
        n = x.size(1)
        a = self.left(x)[:, :, None].expand(-1, -1, n, -1)
        b = self.right(x)[:, None].expand(-1, n, -1, -1)
        grid = torch.cat([a, b], -1).permute(0, 3, 1, 2)
        out = self.conv(grid).squeeze(1)
        return (out + out.transpose(1, 2)) / 2


class ContactPredictor(nn.Module):
    def __init__(self, vocab=25, dim=256, depth=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.blocks = nn.ModuleList([ResidueAttention(dim) for _ in range(depth)])
        self.head = ContactHead(dim)

    def forward(self, residues):
        x = self.embed(residues)
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x))
        return self.head(x)
