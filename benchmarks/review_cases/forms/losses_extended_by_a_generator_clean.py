import torch
from torch import nn
def batches_of_losses(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        yield loss.detach()


def train(model, loader, optimizer):
    history = []
    for _ in range(10):
        history.extend(batches_of_losses(model, loader, optimizer))
    return history
