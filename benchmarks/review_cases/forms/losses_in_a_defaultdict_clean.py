import torch
from torch import nn
from collections import defaultdict


def train(model, loader, optimizer):
    stats = defaultdict(list)
    for x, y in loader:
        optimizer.zero_grad()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        stats["loss"].append(loss.detach())
    return stats
