import math

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    """Attention is all you need, section 3.2."""

    def __init__(self, d_model: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_concat = nn.Linear(d_model, d_model)

    def split(self, x):
        b, t, _ = x.size()
        return x.view(b, t, self.n_head, self.d_k).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        b, t, d = q.size()
        q, k, v = self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v))
        score = q @ k.transpose(2, 3) / math.sqrt(self.d_k)
        if mask is not None:
            score = score.masked_fill(mask == 0, -1e9)
        out = torch.softmax(score, dim=-1) @ v
        out = out.transpose(1, 2).view(b, t, d)  # expect: ESP208
        return self.w_concat(out)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_head, d_ff, drop):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, n_head)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.n1, self.n2, self.drop = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(drop)

    def forward(self, x, mask=None):
        x = self.n1(x + self.drop(self.attn(x, x, x, mask)))
        return self.n2(x + self.drop(self.ff(x)))
