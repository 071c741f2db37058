import torch
from torch import nn
from functools import partial


def remember(store, value):
    store.append(value)  # expect: ESP301 @a


def train(model, loader, optimizer):
    history = []
    record = partial(remember, history)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        record(loss)  # expect: ESP301 @a
    return history
