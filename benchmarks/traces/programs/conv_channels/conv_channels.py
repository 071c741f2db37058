import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, in_channels=3):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, 16, 3),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3),
        )

    def forward(self, x):
        return self.layers(x)


def main():
    mnist = torch.rand(8, 1, 28, 28)
    enc = Encoder()
    print(enc(mnist).shape)


main()
