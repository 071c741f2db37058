import torch
from torch import nn
def attack(model, loader, criterion):
    model.eval()
    right = 0
    for x, y in loader:
        x.requires_grad_(True)
        criterion(model(x), y).backward()
        with torch.no_grad():
            right += (model(x + 0.1 * x.grad.sign()).argmax(1) == y).sum()
    return right
