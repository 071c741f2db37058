import torch
import torch.nn as nn


class Detector(nn.Module):
    """Single-scale, anchor-free detector."""

    def __init__(self, classes, width=32):
        super().__init__()
        blocks, cin = [], 3
        for i in range(4):
            cout = width * 2**i
            blocks += [nn.Conv2d(cin, cout, 3, 2, 1, bias=False), nn.BatchNorm2d(cout), nn.SiLU()]
            cin = cout
        self.backbone = nn.Sequential(*blocks)
        self.cls, self.box = nn.Conv2d(cin, classes, 1), nn.Conv2d(cin, 4, 1)

    def forward(self, x):
        f = self.backbone(x)
        return torch.cat([self.cls(f), self.box(f).exp()], dim=1)
