"""Solar potential of roofs: one number per roof, and a mask."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from base import Task


class RoofNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.mask = nn.Conv2d(width, 1, 1)
        self.power = nn.Linear(width, 1)

    def forward(self, tile):
        h = self.body(tile)
        return self.mask(h).squeeze(1), self.power(h.mean((2, 3)))


class Roofs(Task):
    def loss(self, batch):
        tile, mask, power = batch
        mask_logits, guess = self.model(tile)
        weights = torch.tensor([1.0, 3.0], device=self.device)[mask.long()]
        seg = F.binary_cross_entropy_with_logits(mask_logits, mask, weight=weights)
        return seg + F.mse_loss(guess, power.view(-1, 1))


def run(train_loader, valid_loader, epochs=30, device="cuda"):
    task = Roofs(RoofNet(), device=device)
    for epoch in range(epochs):
        print(epoch, task.epoch(train_loader), task.check(valid_loader))
    return task.model
