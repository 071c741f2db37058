import torch
from torch import nn
def train_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        losses = [train_step(model, optimizer, x, y) for x, y in loader]  # expect: ESP301
        print(epoch, torch.stack(losses).mean())
