import torch
from torch import nn
class Average:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.count = 0.0, 0

    def update(self, value, count):
        self.total += value.detach() * count
        self.count += count


def train(model, loader, optimizer):
    average = Average()
    for _ in range(10):
        average.reset()
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            average.update(loss, len(x))
        print(average.total / average.count)
