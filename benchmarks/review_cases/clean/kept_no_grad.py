import torch
from torch import nn
def train(model, loader, optimizer, epochs):
    total, kept = 0.0, []
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                total += loss
                kept.append(logits * 2)

