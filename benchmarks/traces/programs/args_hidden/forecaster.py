"""Recurrent forecaster."""
import torch
from torch import nn


class Forecaster(nn.Module):
    """GRU with a regression head."""

    def __init__(self, channels, hidden, layers):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.rnn = nn.GRU(channels, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, windows):
        states, _ = self.rnn(self.norm(windows))
        return self.head(states[:, -1]).squeeze(-1)


def make_windows(series, window):
    """Cut a series (time, channels) into windows and next values."""
    starts = range(len(series) - window)
    inputs = torch.stack([series[start : start + window] for start in starts])
    targets = torch.stack([series[start + window, 0] for start in starts])
    return inputs, targets
