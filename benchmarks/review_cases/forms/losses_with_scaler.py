import torch
from torch import nn
def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler()
    running = torch.zeros(1)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        running = running + loss  # expect: ESP301
    return running
