import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


def train(loader):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    bank = torch.empty(0, 8)
    for x, y in loader:
        features = net.encoder(x)
        loss = nn.functional.cross_entropy(net.head(features), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bank = torch.cat([bank, features.detach()])  # allow: ESP401
    return bank
