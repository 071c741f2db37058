import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from pillars import PillarEncoder


class BevSegmenter(nn.Module):
    def __init__(self, classes=12):
        super().__init__()
        self.pillars = PillarEncoder()
        self.neck = nn.Sequential(nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(inplace=True))
        self.out = nn.Conv2d(128, classes, 1)

    def forward(self, points, batch, size):
        return self.out(self.neck(self.pillars(points, batch, size)))


def main(dataset, collate):
    device = torch.device("cuda:0")
    model = BevSegmenter().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loader = DataLoader(dataset, batch_size=6, shuffle=True, num_workers=8, pin_memory=True, collate_fn=collate)
    model.train()
    for epoch in range(24):
        for points, batch, labels in loader:
            points, batch, labels = (each.to(device, non_blocking=True) for each in (points, batch, labels))
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(points, batch, labels.shape[0]), labels, ignore_index=255)
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), sys.argv[1])
