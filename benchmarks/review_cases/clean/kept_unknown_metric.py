import torch
from torch import nn
def train(model, loader, optimizer, metrics):
    history = []
    for x, y in loader:
        optimizer.zero_grad()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        history.append(metrics.compute(logits, y))
