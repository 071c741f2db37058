"""Ranking model with two embeddings and numeric features."""
import torch
from torch import nn


class Ranker(nn.Module):
    """Scores a user and an item."""

    def __init__(self, users, items, size=16):
        super().__init__()
        self.user = nn.Embedding(users, size)
        self.item = nn.Embedding(items, size)
        self.numeric = nn.Linear(2, size)
        self.score = nn.Sequential(nn.Linear(3 * size, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, batch):
        user = self.user(batch[:, 0])
        item = self.item(batch[:, 1])
        numeric = self.numeric(batch[:, 2:])
        return self.score(torch.cat([user, item, numeric], dim=1)).squeeze(1)
