import torch
from torch import nn
class Meter:
    def __init__(self, name):
        self.name, self.values = name, []

    @classmethod
    def named(cls, name):
        return cls(name)

    def update(self, value):
        self.values.append(value)  # expect: ESP301 @a


def build_meters(names):
    return {name: Meter.named(name) for name in names}


def train(model, loader, optimizer):
    meters = build_meters(("loss", "lr"))
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        meters["loss"].update(loss)  # expect: ESP301 @a
