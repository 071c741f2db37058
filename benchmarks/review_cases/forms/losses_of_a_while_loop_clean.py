import torch
from torch import nn
def train(model, loader, optimizer, steps):
    batches = iter(loader)
    log = {"loss": []}
    step = 0
    while step < steps:
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(loader)
            x, y = next(batches)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        log["loss"] += [loss.detach()]
        step += 1
    return log
