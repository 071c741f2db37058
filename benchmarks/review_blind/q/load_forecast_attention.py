"""Attention layers for a long-horizon electricity load forecaster."""
import math

import torch
import torch.nn as nn


class TriangularMask:
    def __init__(self, batch, length, device):
        with torch.no_grad():
            self._mask = torch.triu(
                torch.ones(batch, 1, length, length, dtype=torch.bool, device=device), 1)

    @property
    def mask(self):
        return self._mask


class FullAttention(nn.Module):
    def __init__(self, causal=True, scale=None, dropout=0.1):
        super().__init__()
        self.causal = causal
        self.scale = scale
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values):
        B, L, H, E = queries.shape
        _, S, _, D = values.shape
        scale = self.scale or 1.0 / math.sqrt(E)

        queries = queries.view(B, H, L, E)
        keys = keys.view(B, H, S, E)
        values = values.view(B, H, S, D)

        scores = torch.matmul(queries, keys.transpose(-2, -1)) * scale
        if self.causal:
            mask = TriangularMask(B, L, device=queries.device).mask
            scores = scores.masked_fill(mask, float("-inf"))
        attn = self.dropout(torch.softmax(scores, dim=-1))
        out = torch.matmul(attn, values)
        return out.transpose(1, 2).contiguous()


class AttentionLayer(nn.Module):
    def __init__(self, attention, d_model, n_heads):
        super().__init__()
        d_head = d_model // n_heads
        self.inner = attention
        self.query_projection = nn.Linear(d_model, d_head * n_heads)
        self.key_projection = nn.Linear(d_model, d_head * n_heads)
        self.value_projection = nn.Linear(d_model, d_head * n_heads)
        self.out_projection = nn.Linear(d_head * n_heads, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values):
        B, L, _ = queries.shape
        _, S, _ = keys.shape
        H = self.n_heads
        q = self.query_projection(queries).view(B, L, H, -1)
        k = self.key_projection(keys).view(B, S, H, -1)
        v = self.value_projection(values).view(B, S, H, -1)
        out = self.inner(q, k, v).view(B, L, -1)
        return self.out_projection(out)


class ForecastBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, dropout=0.1):
        super().__init__()
        d_ff = d_ff or 4 * d_model
        self.attn = AttentionLayer(FullAttention(dropout=dropout), d_model, n_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.dropout(self.attn(h, h, h))
        return x + self.dropout(self.ff(self.norm2(x)))
