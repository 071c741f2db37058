import torch
from torch import nn
class Backward:
    def __call__(self, state):
        state["loss"].backward()  # expect: ESP101 @a


class Update:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __call__(self, state):
        self.optimizer.step()  # expect: ESP101 @a


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stages = [Backward(), Update(optimizer)]
    for batch in loader:
        state = {"loss": model(batch).square().mean()}  # expect: ESP101 @a
        for stage in stages:
            stage(state)  # expect: ESP101 @a
