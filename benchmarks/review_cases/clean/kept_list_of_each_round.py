import torch
from torch import nn
def train(model, loader, optimizer):
    for views, y in loader:
        losses = []
        for view in views:
            losses.append(nn.functional.cross_entropy(model(view), y))
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        optimizer.step()
