import torch
from torch import nn
class Sgd(torch.optim.SGD):
    def step(self, closure=None):
        result = super().step(closure)
        self.zero_grad()
        return result


def train(model, loader):
    optimizer = Sgd(model.parameters(), lr=0.1)
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
