import torch
from torch import nn


class Small(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down = nn.Conv2d(1, width, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2)
        self.out = nn.Conv2d(2 * width, 1, 1)

    def forward(self, image):
        skip = self.down(image)
        deep = self.up(self.pool(skip))
        return self.out(torch.cat([skip, deep], dim=1))
