import torch
from torch import nn


def train_step(model, optimizer, tokens, targets):
    optimizer.zero_grad()
    scores = model(tokens)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)  # expect: ESP217
    loss.backward()
    optimizer.step()
    return loss.detach()


def fit(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=20.0)
    for _ in range(epochs):
        for tokens, targets in loader:
            train_step(model, optimizer, tokens, targets)


def fine_tune(model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for tokens, targets in loader:
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: ESP217
        optimizer.zero_grad()
