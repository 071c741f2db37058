"""Grouped-query decoder."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 32000
    dim: int = 1024
    depth: int = 16
    heads: int = 16
    kv_heads: int = 4
    max_len: int = 4096

    @property
    def head_dim(self):
        return self.dim // self.heads


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q = nn.Linear(c.dim, c.heads * c.head_dim, bias=False)
        self.kv = nn.Linear(c.dim, 2 * c.kv_heads * c.head_dim, bias=False)
        self.o = nn.Linear(c.dim, c.dim, bias=False)

    def forward(self, x, cos, sin, cache, start):
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.c.heads, -1).transpose(1, 2)
        k, v = self.kv(x).view(B, T, 2, self.c.kv_heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mask = None
        if cache is not None:
            k, v = cache.update(start, k, v)
            if T > 1 and start > 0:
                mask = torch.ones(T, start + T, dtype=torch.bool, device=x.device).tril(start)
        groups = self.c.heads // self.c.kv_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask,
                                           is_causal=mask is None and T > 1)
        return self.o(y.transpose(1, 2).reshape(B, T, -1))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(c.dim), nn.RMSNorm(c.dim)
        self.attn = Attention(c)
        self.gate, self.up = nn.Linear(c.dim, 3 * c.dim), nn.Linear(c.dim, 3 * c.dim)
        self.down = nn.Linear(3 * c.dim, c.dim)

    def forward(self, x, cos, sin, cache, start):
        x = x + self.attn(self.n1(x), cos, sin, cache, start)
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed = nn.Embedding(c.vocab, c.dim)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.depth))
        self.norm = nn.RMSNorm(c.dim)
        self.head = nn.Linear(c.dim, c.vocab, bias=False)
        inv = 10000.0 ** (-torch.arange(0, c.head_dim, 2).float() / c.head_dim)
        angle = torch.outer(torch.arange(c.max_len).float(), inv)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids, cache=None):
        start = cache.length if cache is not None else 0
        T = ids.size(1)
        cos, sin = self.cos[start:start + T], self.sin[start:start + T]
        x = self.embed(ids)
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, cache.layers[i] if cache is not None else None, start)
        if cache is not None:
            cache.advance(T)
        return self.head(self.norm(x))
