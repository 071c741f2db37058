import torch
from torch import nn
def clear(parameters):
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.zero_()  # allow: ESP405


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        clear(model.parameters())
        model(batch).sum().backward()
        optimizer.step()
