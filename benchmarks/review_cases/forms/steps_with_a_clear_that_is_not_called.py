import torch
from torch import nn
def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        optimizer.zero_grad
        model(batch).square().mean().backward()  # expect: ESP101
        optimizer.step()
