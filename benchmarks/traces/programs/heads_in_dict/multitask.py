import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.lin = nn.Linear(n_in, n_out)

    def forward(self, x):
        return self.lin(x)


class Heads(nn.Module):
    def __init__(self, n_in, tasks):
        super().__init__()
        self.tasks = {name: Head(n_in, n_out) for name, n_out in tasks.items()}

    def forward(self, h, name):
        return self.tasks[name](h)
