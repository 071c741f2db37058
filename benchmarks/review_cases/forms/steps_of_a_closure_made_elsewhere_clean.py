import torch
from torch import nn
def make_step(model, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def step(batch):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch.compile(step)


def train(model, loader):
    step = make_step(model, 0.1)
    return [step(batch) for batch in loader]
