import torch
import torch.nn as nn
import torch.nn.functional as F


class Tower(nn.Module):
    def __init__(self, count, dense, dim=64):
        super().__init__()
        self.ids = nn.Embedding(count, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim + dense, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, dim)
        )

    def forward(self, ids, dense):
        return F.normalize(self.mlp(torch.cat([self.ids(ids), dense], dim=1)), dim=1)


class TwoTower(nn.Module):
    def __init__(self, users, items):
        super().__init__()
        self.user, self.item = Tower(users, 12), Tower(items, 20)

    def forward(self, u, ud, i, idense):
        return self.user(u, ud) @ self.item(i, idense).t() / 0.05
