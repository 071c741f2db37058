import torch
from torch import nn
def train(model, loader, optimizer):
    hidden = None
    for x, y in loader:
        out, hidden = model(x, hidden)
        hidden = tuple(each.detach() for each in hidden)
        loss = nn.functional.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
