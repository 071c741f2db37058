import torch
from torch import nn
class Backward:
    def __call__(self, state):
        state["loss"].backward()


class Update:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def __call__(self, state):
        self.optimizer.step()


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stages = [Backward(), Update(optimizer)]
    for batch in loader:
        optimizer.zero_grad()
        state = {"loss": model(batch).square().mean()}
        for stage in stages:
            stage(state)
