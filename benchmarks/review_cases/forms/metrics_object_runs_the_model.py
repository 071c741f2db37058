import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.body(x)


class Evaluator:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader

    def __enter__(self):
        self.was = self.model.training
        self.model.eval()
        return self

    def __exit__(self, *error):
        self.model.train(self.was)

    def predictions(self):
        for x, y in self.loader:
            yield self.model(x), y  # expect: ESP302

    def accuracy(self):
        return sum((p.argmax(1) == y).sum() for p, y in self.predictions()) / len(self.loader.dataset)


def check(loader):
    with Evaluator(Net(), loader) as evaluator:
        return evaluator.accuracy()
