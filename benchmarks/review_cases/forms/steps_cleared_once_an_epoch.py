import torch
from torch import nn
def step(model, optimizer, batch):
    model(batch).square().mean().backward()  # expect: ESP101 @a
    optimizer.step()  # expect: ESP101 @a


def train(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        optimizer.zero_grad()
        for batch in loader:
            step(model, optimizer, batch)  # expect: ESP101 @a
