import torch
from torch import nn
def train(model, loader, every=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, batch in enumerate(loader):
        (model(batch).sum() / every).backward()
        if (number + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()
