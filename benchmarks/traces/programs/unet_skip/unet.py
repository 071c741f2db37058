import torch
from torch import nn


def conv(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU())


class UNet(nn.Module):
    def __init__(self, channels=1, base=8):
        super().__init__()
        self.stem = conv(channels, base)
        self.down = conv(base, 2 * base)
        self.mid = conv(2 * base, 2 * base)
        self.up = nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        self.fuse = conv(base, base)
        self.last = nn.Conv2d(base, channels, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        a = self.stem(x)
        b = self.mid(self.down(self.pool(a)))
        u = self.up(b)
        return self.last(self.fuse(torch.cat([u, a], dim=1)))
