"""Transformer over event sequences."""
import torch
from torch import nn


class EventModel(nn.Module):
    """Encoder layers, masked mean, regression head."""

    def __init__(self, size, width=32, heads=4, layers=2):
        super().__init__()
        self.project = nn.Linear(size, width)
        layer = nn.TransformerEncoderLayer(width, heads, dim_feedforward=64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, 1)

    def forward(self, events, mask):
        hidden = self.encoder(self.project(events), src_key_padding_mask=~mask)
        weights = mask.unsqueeze(-1)
        pooled = (hidden * weights).sum(dim=1) / weights.sum(dim=1)
        return self.head(pooled).squeeze(-1)


def count_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())
