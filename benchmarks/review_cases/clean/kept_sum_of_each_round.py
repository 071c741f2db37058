import torch
from torch import nn
def train(model, loader, optimizer):
    for views, y in loader:
        total = 0.0
        for view in views:
            total = total + nn.functional.cross_entropy(model(view), y)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
