import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, dim):
        self.q = nn.Linear(dim, 1)

    def forward(self, x):
        return self.q(x)


Critic(3)(torch.randn(1, 3))
