import torch
from torch import nn


class Ensemble(nn.Module):
    def __init__(self, members, n_in=5):
        super().__init__()
        self.members = [nn.Linear(n_in, 1) for _ in range(members)]

    def forward(self, x):
        return torch.stack([m(x) for m in self.members]).mean(0)
