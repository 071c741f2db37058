import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 32)
        self.outer = nn.Linear(32, 16)

    def forward(self, x):
        wide = torch.relu(self.inner(x))  # line: inner
        return x + self.outer(wide)  # line: outer


def network():
    return nn.Sequential(Block(), Block())


def raises(x):
    raise ValueError("no such luck")  # line: raises


def doubles_in_place(x):
    return x.mul_(2)


def counts(x):
    return x + 1


compiled = torch.compile(counts, backend="eager")


def runs_compiled(x):
    return compiled(x)
