import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.l1, self.l2 = nn.Linear(n, 32), nn.Linear(32, dim)

    def forward(self, x):
        h = torch.tanh(self.l1(x))
        z = torch.exp(self.l2(h))
        z /= z.sum(-1, keepdim=True)
        return z


class TwoSided(nn.Module):
    def __init__(self, users, items, dim=8):
        super().__init__()
        self.user, self.item = Tower(users, dim), Tower(items, dim)
        self.temperature = nn.Parameter(torch.tensor(0.1))

    def forward(self, u, i):
        return self.user(u) @ self.item(i).T / self.temperature
