import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


class Evaluator:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader

    @torch.no_grad()
    def __call__(self):
        self.model.eval()
        return sum((self.model(x).argmax(1) == y).sum() for x, y in self.loader)


class Trainer:
    def __init__(self, loader, held_out):
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader, self.evaluate = loader, Evaluator(self.model, held_out)

    def epoch(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()

    def fit(self):
        self.model.train()
        for _ in range(5):
            self.epoch()
            print(self.evaluate())  # expect: ESP103
