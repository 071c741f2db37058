"""A small causal transformer."""
import torch
from torch import nn


class CausalAttention(nn.Module):
    """Attention over earlier positions."""

    def __init__(self, settings):
        super().__init__()
        self.heads, self.head_size = settings.heads, settings.head_size
        self.qkv = nn.Linear(settings.width, 3 * settings.width)
        self.out = nn.Linear(settings.width, settings.width)

    def _split(self, part):
        batch, time, _ = part.shape
        return part.view(batch, time, self.heads, self.head_size).transpose(1, 2)

    def forward(self, hidden):
        query, key, value = (self._split(part) for part in self.qkv(hidden).chunk(3, dim=-1))
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and feed-forward with residuals."""

    def __init__(self, settings):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(settings.width), nn.LayerNorm(settings.width)
        self.attention = CausalAttention(settings)
        self.feed = nn.Sequential(
            nn.Linear(settings.width, settings.feed_size), nn.GELU(), nn.Linear(settings.feed_size, settings.width)
        )

    def forward(self, hidden):
        hidden = hidden + self.attention(self.norm1(hidden))
        return hidden + self.feed(self.norm2(hidden))


class LanguageModel(nn.Module):
    """Embedding, blocks, projection to the vocabulary."""

    def __init__(self, settings):
        super().__init__()
        self.tokens = nn.Embedding(settings.vocabulary, settings.width)
        self.positions = nn.Embedding(settings.context, settings.width)
        self.blocks = nn.ModuleList([Block(settings) for _ in range(settings.layers)])
        self.head = nn.Linear(settings.width, settings.vocabulary)

    def forward(self, tokens):
        hidden = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)
