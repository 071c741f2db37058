import torch
from torch import nn


class ViT(nn.Module):
    def __init__(self, image=32, patch=8, dim=12, classes=3):
        super().__init__()
        n = (image // patch) ** 2
        self.cut = nn.Conv2d(3, dim, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.place = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        self.layer = nn.TransformerEncoderLayer(dim, 3, 24, batch_first=True)
        self.out = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.place
        return self.out(self.layer(x)[:, 0])
