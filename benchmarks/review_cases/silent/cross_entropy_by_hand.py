import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class FocalLoss(nn.Module):
    """Focal loss for dense detection heads."""

    def __init__(self, alpha=0.25, gamma=2.0):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        pos = -self.alpha * (1 - p) ** self.gamma * torch.log(p) * target  # expect: ESP210|ESP213
        neg = -(1 - self.alpha) * p**self.gamma * torch.log(1 - p) * (1 - target)  # allow: ESP210, ESP213
        return (pos + neg).sum() / target.sum().clamp(min=1)


class Head(nn.Module):
    def __init__(self, cin=256, anchors=9, classes=80):
        super().__init__()
        layers = []
        for _ in range(4):
            layers += [nn.Conv2d(cin, cin, 3, padding=1), nn.GroupNorm(32, cin), nn.ReLU(inplace=True)]
        self.tower = nn.Sequential(*layers)
        self.cls = nn.Conv2d(cin, anchors * classes, 3, padding=1)

    def forward(self, feature):
        return self.cls(self.tower(feature))


def train(backbone, head, loader: DataLoader, opt, device):
    criterion = FocalLoss()
    backbone.train()
    head.train()
    for images, targets in loader:
        loss = criterion(head(backbone(images.to(device))), targets.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
