import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR


def one_cycle(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = OneCycleLR(optimizer, max_lr=0.4, total_steps=epochs * len(loader))
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            scheduler.step()  # expect: ESP107
            optimizer.step()


def cosine(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    for _ in range(epochs):
        scheduler.step()  # expect: ESP107
        one_epoch(model, optimizer, loader)


def one_epoch(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
