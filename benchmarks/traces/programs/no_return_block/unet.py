"""A small U-Net for one-channel images."""
import torch
from torch import nn


class DoubleConv(nn.Module):
    """Two convolutions with normalization."""

    def __init__(self, inside, outside):
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, padding=1)
        self.second = nn.Conv2d(outside, outside, 3, padding=1)
        self.norm = nn.BatchNorm2d(outside)

    def forward(self, image):
        image = torch.relu(self.first(image))
        return torch.relu(self.norm(self.second(image)))


class AttentionGate(nn.Module):
    """Weights a skip connection by the decoder state."""

    def __init__(self, channels):
        super().__init__()
        self.key = nn.Conv2d(channels, channels, 1)
        self.query = nn.Conv2d(channels, channels, 1)
        self.weight = nn.Conv2d(channels, 1, 1)

    def forward(self, skip, state):
        score = self.weight(torch.relu(self.key(skip) + self.query(state)))
        if self.training:
            score = score + 0.01 * torch.randn_like(score)
        skip = skip * torch.sigmoid(score)


class Decoder(nn.Module):
    """Upsamples, applies the gate, joins and convolves."""

    def __init__(self, inside, outside):
        super().__init__()
        self.up = nn.ConvTranspose2d(inside, outside, 2, stride=2)
        self.gate = AttentionGate(outside)
        self.conv = DoubleConv(2 * outside, outside)

    def forward(self, state, skip):
        state = self.up(state)
        gated = self.gate(skip, state)
        joined = torch.cat([gated, state], dim=1)
        return self.conv(joined)


class UNet(nn.Module):
    """Two levels."""

    def __init__(self, classes):
        super().__init__()
        self.down1 = DoubleConv(1, 8)
        self.down2 = DoubleConv(8, 16)
        self.pool = nn.MaxPool2d(2)
        self.decode = Decoder(16, 8)
        self.out = nn.Conv2d(8, classes, 1)

    def forward(self, image):
        skip = self.down1(image)
        deep = self.down2(self.pool(skip))
        return self.out(self.decode(deep, skip))
