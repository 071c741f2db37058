"""Attention blocks."""
from torch import nn


class CrossBlock(nn.Module):
    """Queries attend to a context, then a feed-forward layer."""

    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, queries, context, padding):
        attended, _ = self.attention(queries, context, context, key_padding_mask=padding, need_weights=False)
        queries = self.norm1(queries + attended)
        return self.norm2(queries + self.feed(queries))
