import torch
from torch import nn


class MemoryPolicy(nn.Module):
    def __init__(self, n=5, h=8):
        super().__init__()
        self.cell, self.head = nn.GRUCell(n, h), nn.Linear(h, 2)
        self.state = None
        self.h = h

    def reset(self, batch):
        self.state = torch.zeros(batch, self.h)

    def forward(self, obs):
        self.state = self.cell(obs, self.state)
        return self.head(self.state)
