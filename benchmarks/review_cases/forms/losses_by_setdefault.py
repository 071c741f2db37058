import torch
from torch import nn
def log(stats, **values):
    for key, value in values.items():
        stats.setdefault(key, []).append(value)  # expect: ESP301 @a


def train(model, loader, optimizer):
    stats = {}
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        log(stats, loss=loss, size=len(x))  # expect: ESP301 @a
    return stats
