import torch
from torch import nn
class Running:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def __call__(self, value):
        self.total = self.total + value  # expect: ESP301 @a
        self.count += 1


def train(model, loader):
    optimizer = torch.optim.AdamW(model.parameters())
    running = Running()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        running(loss)  # expect: ESP301 @a
    return running.total / running.count
