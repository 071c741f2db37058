"""Blocks of the tagger."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    """Self-attention with a key mask."""

    def __init__(self, width, heads=8):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(batch, length, self.heads, -1).transpose(1, 2)
        k = k.view(batch, length, self.heads, -1).transpose(1, 2)
        v = v.view(batch, length, self.heads, -1).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width)
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        weights = torch.softmax(scores, dim=1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.out(mixed)


class Feed(nn.Module):
    """Position-wise feed-forward network."""

    def __init__(self, width, hidden=None):
        super().__init__()
        hidden = hidden or 4 * width
        self.layers = [nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = Attention(width)
        self.feed = Feed(width)
        self.first = nn.LayerNorm(width)
        self.second = nn.LayerNorm(width)

    def forward(self, x, mask):
        x = x + self.attention(self.first(x), mask)
        return x + self.feed(self.second(x))


class Tagger(nn.Module):
    def __init__(self, vocabulary, width, depth=6, tags=17):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList([Layer(width)] * depth)
        self.head = nn.Linear(width, tags)
        self.dropout = nn.Dropout(0.1)

    def forward(self, tokens, mask):
        x = self.dropout(self.embed(tokens))
        for layer in self.layers:
            x = layer(x, mask)
        return torch.softmax(self.head(x), dim=-1)
