import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


class Center:
    def __init__(self, width):
        self.value = torch.zeros(width)

    def move(self, features):
        self.value = 0.9 * self.value + 0.1 * features.mean(0)  # expect: ESP303|ESP301 @a


def train(loader):
    net, center = Net(), Center(8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        features = net.encoder(x)
        loss = nn.functional.cross_entropy(net.head(features), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        center.move(features)  # expect: ESP303|ESP301 @a
    return center.value
