"""Encoder for contracts of 16k tokens; activations are recomputed."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.n2(x))


class ContractEncoder(nn.Module):
    def __init__(self, vocab=32_000, dim=512, depth=12, clauses=41):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, 8) for _ in range(depth))
        self.tail = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(4)])
        self.out = nn.Linear(dim, clauses)

    def forward(self, ids):
        h = self.embed(ids)
        for block in self.blocks:
            h = checkpoint(block, h) if self.training else block(h)  # expect: ESP505
        if self.training:
            h = checkpoint_sequential(self.tail, 2, h, use_reentrant=False)
        else:
            h = self.tail(h)
        return self.out(h.mean(1))
