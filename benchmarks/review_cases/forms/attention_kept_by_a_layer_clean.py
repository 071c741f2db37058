import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


class Attention(nn.Module):
    maps = []

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(-1, -2), -1)
        Attention.maps.append(weights.detach())
        return weights @ x


def train(loader):
    layer = Attention()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        layer(x).square().mean().backward()
        optimizer.step()
