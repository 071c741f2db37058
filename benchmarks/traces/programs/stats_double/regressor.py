"""Regression network."""
from torch import nn


class Regressor(nn.Module):
    """Linear layers with batch normalization."""

    def __init__(self, channels, width=32):
        super().__init__()
        self.input = nn.Linear(channels, width)
        self.norm = nn.BatchNorm1d(width)
        self.output = nn.Linear(width, 1)
        self.activation = nn.SiLU()

    def forward(self, readings):
        hidden = self.activation(self.norm(self.input(readings)))
        return self.output(hidden).flatten()
