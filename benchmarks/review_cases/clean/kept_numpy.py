import torch
from torch import nn
def train(model, loader, optimizer, epochs):
    kept = []
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            kept.append(logits.detach().cpu().numpy())  # allow: ESP305

