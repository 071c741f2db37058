import torch
from torch import nn
from functools import partial


def train_step(model, optimizer, batch):
    loss = model(batch).square().mean()
    loss.backward()  # expect: ESP101 @a
    optimizer.step()  # expect: ESP101 @a


def main(loader):
    model = nn.Linear(4, 4)
    step = partial(train_step, model, torch.optim.SGD(model.parameters(), lr=0.1))
    for batch in loader:
        step(batch)  # expect: ESP101 @a
