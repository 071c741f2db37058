import math

import torch
from torch import nn


class Pooling(nn.Module):
    """Attention pooling of a padded sequence."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.value = nn.Linear(width, width)

    def forward(self, seq, lengths):
        scores = seq @ self.query
        weights = torch.softmax(scores, dim=1)
        steps = torch.arange(seq.size(1)).unsqueeze(0)
        weights[steps >= lengths.unsqueeze(1)] = 0.0
        weights = weights / weights.sum(1, keepdim=True)
        return (weights.unsqueeze(-1) * self.value(seq)).sum(1)


class Tagger(nn.Module):
    def __init__(self, width=12, tags=3):
        super().__init__()
        self.pool = Pooling(width)
        self.fc = nn.Linear(width, tags)

    def forward(self, seq, lengths):
        return self.fc(self.pool(seq, lengths))
