"""Focal loss for small objects in aerial images."""
import torch
import torch.nn as nn


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.25, gamma=2.0):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        hit = -self.alpha * (1 - p) ** self.gamma * torch.log(p) * target  # expect: ESP210
        miss = -(1 - self.alpha) * p**self.gamma * torch.log(1 - p) * (1 - target)  # expect: ESP213|ESP210
        return (hit + miss).sum() / target.sum().clamp(min=1)


class HeatmapHead(nn.Module):
    def __init__(self, cin=64, classes=15):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(cin, cin, 3, padding=1), nn.ReLU(), nn.Conv2d(cin, classes, 1))
        nn.init.constant_(self.net[-1].bias, -2.19)

    def forward(self, x):
        return self.net(x)


def train(backbone, loader, device="cuda", epochs=24):
    head, focal = HeatmapHead().to(device), FocalLoss()
    backbone = backbone.to(device).train()
    optimizer = torch.optim.AdamW([*backbone.parameters(), *head.parameters()], lr=1e-4)
    for _ in range(epochs):
        for tiles, heat in loader:
            loss = focal(head(backbone(tiles.to(device))), heat.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return head
