"""Feature extractor with optional fine-tuning."""
import torch
from torch import nn


class Backbone(nn.Module):
    """Three convolutions; `extract` returns one vector for each image."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1)
        )
        self.width = width

    @torch.no_grad()
    def extract(self, images):
        return self.layers(images).flatten(2).mean(dim=2)


def parameter_report(module):
    """Return the number of trainable parameters."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
