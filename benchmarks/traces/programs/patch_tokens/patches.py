import torch
from torch import nn


class Patchify(nn.Module):
    def __init__(self, channels, dim, patch):
        super().__init__()
        self.conv = nn.Conv2d(channels, dim, patch, stride=patch)

    def forward(self, image):
        grid = self.conv(image)
        return grid.flatten(2).transpose(1, 2)


class Unpatchify(nn.Module):
    def __init__(self, channels, dim, patch):
        super().__init__()
        self.channels, self.patch = channels, patch
        self.lin = nn.Linear(dim, channels * patch * patch)

    def forward(self, tokens, side):
        b = tokens.shape[0]
        p, c = self.patch, self.channels
        x = self.lin(tokens).view(b, side, side, c, p, p)
        x = x.permute(0, 3, 1, 4, 2, 5)
        return x.view(b, c, side * p, side * p)


class TinyMAE(nn.Module):
    def __init__(self, channels=3, dim=24, patch=4):
        super().__init__()
        self.patch = patch
        self.enc = Patchify(channels, dim, patch)
        self.block = nn.TransformerEncoderLayer(dim, 4, 48, batch_first=True, dropout=0.0)
        self.dec = Unpatchify(channels, dim, patch)

    def forward(self, image):
        return self.dec(self.block(self.enc(image)), image.shape[-1] // self.patch)
