import torch
from torch import nn
def make_step(model, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def step(batch):
        loss = model(batch).square().mean()
        loss.backward()  # expect: ESP101 @a
        optimizer.step()  # expect: ESP101 @a
        return loss.detach()

    return torch.compile(step)


def train(model, loader):
    step = make_step(model, 0.1)
    return [step(batch) for batch in loader]
