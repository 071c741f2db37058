import torch
from torch import nn
from contextlib import contextmanager


@contextmanager
def evaluating(model):
    was = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        model.train(was)


def fit(model, loader, held_out, optimizer):
    model.train()
    for _ in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        with evaluating(model) as net:
            print(sum((net(x).argmax(1) == y).sum() for x, y in held_out))
