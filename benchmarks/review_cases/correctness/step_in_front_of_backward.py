import torch
from torch import nn


class Fitter:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)

    def step(self, x, y):
        self.optimizer.zero_grad()  # expect: ESP101
        loss = nn.functional.huber_loss(self.model(x), y)
        self.optimizer.step()
        loss.backward()
        return loss.detach()

    def fit(self, loader):
        for x, y in loader:
            self.step(x, y)
