import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


class Bank:
    def __init__(self, size):
        self.size, self.rows = size, []

    def push(self, rows):
        self.rows.append(rows)


class Trainer:
    def __init__(self, loader):
        self.net, self.loader, self.bank = Net(), loader, Bank(4096)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self):
        for x, y in self.loader:
            features = self.net.encoder(x)
            loss = nn.functional.cross_entropy(self.net.head(features), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.bank.push(features.detach())
