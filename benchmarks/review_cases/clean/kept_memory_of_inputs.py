import torch
from torch import nn
class Buffer:
    def __init__(self):
        self.rows = []

    def add(self, *row):
        self.rows.append(row)


def train(model, loader, optimizer):
    buffer = Buffer()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        buffer.add(x, y)
