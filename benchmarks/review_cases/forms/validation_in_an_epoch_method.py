import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


class Learner:
    def __init__(self, config):
        self.net = self.make(config)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=config.lr)

    def make(self, config):
        return Net().to(config.device)

    def epoch(self, loader, train):
        step = self.train_batch if train else self.test_batch
        self.net.train() if train else self.net.eval()
        return [step(x, y) for x, y in loader]

    def train_batch(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def test_batch(self, x, y):
        return nn.functional.cross_entropy(self.net(x), y).detach()  # expect: ESP302

    def fit(self, train_loader, test_loader):
        for _ in range(10):
            self.epoch(train_loader, True)
            self.epoch(test_loader, False)
