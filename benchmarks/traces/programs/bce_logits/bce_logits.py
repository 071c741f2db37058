import torch
from torch import nn


class Disc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x)


torch.manual_seed(1)
disc = Disc()
bce = nn.BCELoss()
for _ in range(5):
    real = torch.randn(32, 8) * 5
    loss = bce(disc(real), torch.ones(32, 1))
    loss.backward()
