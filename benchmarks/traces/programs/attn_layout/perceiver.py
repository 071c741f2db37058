"""Latent queries that read a padded sequence."""
import torch
from torch import nn

from blocks import CrossBlock


class Perceiver(nn.Module):
    """A fixed number of latents, several cross blocks, one classifier."""

    def __init__(self, vocabulary, classes, width=32, latents=6, depth=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.latents = nn.Parameter(torch.randn(latents, width) * 0.02)
        self.blocks = nn.ModuleList([CrossBlock(width, heads=4) for _ in range(depth)])
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        padding = tokens == 0
        context = self.embedding(tokens)
        state = self.latents.unsqueeze(0).expand(len(tokens), -1, -1)
        for block in self.blocks:
            state = block(state, context, padding)
        return self.head(state.mean(dim=1))
