from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass(frozen=True)
class LMConfig:
    vocab: int = 16384
    d: int = 512
    depth: int = 8
    heads: int = 8
    ctx: int = 512
    gated: bool = True
    tie: bool = True


class FeedForward(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.gated = cfg.gated
        self.up = nn.Linear(cfg.d, (8 if cfg.gated else 4) * cfg.d, bias=False)
        self.down = nn.Linear(4 * cfg.d, cfg.d, bias=False)

    def forward(self, x):
        h = self.up(x)
        if self.gated:
            a, b = h.chunk(2, dim=-1)
            h = F.silu(a) * b
        else:
            h = F.gelu(h)
        return self.down(h)


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.n1, self.n2 = nn.LayerNorm(cfg.d), nn.LayerNorm(cfg.d)
        self.qkv, self.o = nn.Linear(cfg.d, 3 * cfg.d, bias=False), nn.Linear(cfg.d, cfg.d, bias=False)
        self.ff = FeedForward(cfg)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class LM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok, self.pos = nn.Embedding(cfg.vocab, cfg.d), nn.Embedding(cfg.ctx, cfg.d)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.depth))
        self.norm, self.head = nn.LayerNorm(cfg.d), nn.Linear(cfg.d, cfg.vocab, bias=False)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.02)
        if cfg.tie:
            self.head.weight = self.tok.weight

    def forward(self, ids):
        x = self.tok(ids[:, :-1])
        x = x + self.pos.weight[:x.size(1)]
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
