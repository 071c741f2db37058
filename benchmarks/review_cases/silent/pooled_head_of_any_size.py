"""Classifies tiles of satellite images with a head that fits any backbone."""

import torch
import torch.nn.functional as F
from torch import nn


class TileNet(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.classes = classes

    def forward(self, tiles):
        features = self.backbone(tiles).mean(dim=(2, 3))
        head = nn.Linear(features.shape[1], self.classes).to(features.device)  # expect: ESP220
        return head(torch.relu(features))


def step(net, optimizer, tiles, labels):
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(net(tiles), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()
