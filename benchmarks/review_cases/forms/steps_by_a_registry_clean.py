import torch
from torch import nn
def plain(model, optimizer, batch):
    model.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()


def clipped(model, optimizer, batch):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


STEPS = {"plain": plain, "clipped": clipped}


def main(loader, kind):
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = STEPS["plain"]
    for batch in loader:
        step(model, optimizer, batch)
