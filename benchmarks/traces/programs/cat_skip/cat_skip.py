import torch
from torch import nn


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.out = nn.Conv2d(11, 1, 1)

    def forward(self, x):
        d = self.down(x)
        u = self.up(d)
        return self.out(torch.cat([x, u], dim=1))


UNet()(torch.rand(1, 3, 65, 65))
