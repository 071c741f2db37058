import torch
from torch import nn
def smooth(old, new, beta=0.98):
    return new if old is None else beta * old + (1 - beta) * new


def train(model, loader, optimizer):
    average = None
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        average = smooth(average, loss)  # expect: ESP301
    return average
