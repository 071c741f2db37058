"""Metric learning objective."""
import torch
from torch import nn


class TripletObjective(nn.Module):
    """Margin loss on normalized embeddings."""

    def __init__(self, backbone, margin=0.2):
        super().__init__()
        self.backbone = backbone
        self.margin = margin

    def embed(self, images):
        return nn.functional.normalize(self.backbone.extract(images), dim=1)

    def forward(self, anchor, positive, negative):
        a, p, n = self.embed(anchor), self.embed(positive), self.embed(negative)
        near = (a - p).pow(2).sum(dim=1)
        far = (a - n).pow(2).sum(dim=1)
        return torch.relu(near - far + self.margin).mean()
