import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, rows):
        return self.layer(rows).squeeze()


def best(scores):
    return torch.softmax(scores, dim=1).argmax(dim=1)
