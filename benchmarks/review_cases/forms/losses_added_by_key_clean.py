import torch
from torch import nn
def train(model, criterions, loader, optimizer):
    totals = {name: 0.0 for name in ("box", "class")}
    for images, targets in loader:
        optimizer.zero_grad()
        outputs = model(images)
        losses = {"box": nn.functional.l1_loss(outputs[0], targets[0]), "class": nn.functional.mse_loss(outputs[1], targets[1])}
        sum(losses.values()).backward()
        optimizer.step()
        for name, value in losses.items():
            totals[name] += value.detach()
    return totals
