import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, cardinalities, dim=32, out=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, dim) for n in cardinalities)
        self.mlp = nn.Sequential(nn.Linear(dim * len(cardinalities), 128), nn.ReLU(), nn.Linear(128, out))

    def forward(self, ids):
        cols = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return F.normalize(self.mlp(torch.cat(cols, dim=1)), dim=1)


class MatchingModel(nn.Module):
    """Scores every user of a batch against every item of it."""

    def __init__(self, user_cards, item_cards, temperature=0.05):
        super().__init__()
        self.user, self.item = Tower(user_cards), Tower(item_cards)
        self.temperature = temperature

    def forward(self, users, items):
        sims = self.user(users) @ self.item(items).T / self.temperature
        return sims.softmax(dim=-1)  # expect: ESP201 @twice
