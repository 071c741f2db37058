"""Small decoder with rotary positions and a key/value cache."""
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Cache = Tuple[torch.Tensor, torch.Tensor]


class Rotary(nn.Module):
    def __init__(self, dim, max_len=4096, base=10000.0):
        super().__init__()
        inv = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        ang = torch.outer(torch.arange(max_len).float(), inv)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)

    def forward(self, x, offset):
        length = x.size(-2)
        cos = self.cos[offset:offset + length]
        sin = self.sin[offset:offset + length]
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class CachedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(self.head_dim)

    def forward(self, x, cache: Optional[Cache]):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        if cache is not None:
            v = torch.cat([cache[1], v], dim=2)
        past = v.size(2) - T
        q = self.rotary(q, past)
        k = self.rotary(k, 0)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        y = y.transpose(1, 2).reshape(B, T, C)
        return self.proj(y), (k, v)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = CachedAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, cache):
        a, cache = self.attn(self.norm1(x), cache)
        x = x + a
        return x + self.mlp(self.norm2(x)), cache


class StoryDecoder(nn.Module):
    def __init__(self, vocab, dim=384, heads=6, depth=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, caches: Optional[List[Cache]] = None):
        x = self.embed(ids)
        caches = caches if caches is not None else [None] * len(self.blocks)
        new = []
        for block, cache in zip(self.blocks, caches):
            x, cache = block(x, cache)
            new.append(cache)
        return self.head(self.norm(x)), new

    @torch.inference_mode()
    def generate(self, ids, steps, temperature=0.8):
        self.eval()
        logits, caches = self(ids)
        for _ in range(steps):
            probs = torch.softmax(logits[:, -1] / temperature, dim=-1)
            token = torch.multinomial(probs, 1)
            ids = torch.cat([ids, token], dim=1)
            logits, caches = self(token, caches)
        return ids
