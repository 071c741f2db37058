import torch
from torch import nn
def steps(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        yield loss


def train(model, loader, optimizer):
    for number, loss in enumerate(steps(model, loader, optimizer)):
        if number % 100 == 0:
            print(loss.item())
