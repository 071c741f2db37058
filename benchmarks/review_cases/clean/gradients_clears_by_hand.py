import torch
from torch import nn
def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        for parameter in model.parameters():
            parameter.grad = None
        model(batch).sum().backward()
        optimizer.step()
