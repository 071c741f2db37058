"""Updates all parameters in one operation."""

import torch
from torch import nn


def _step(foreach):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, foreach=foreach)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def get_inputs():
    return torch.randn(32, 64), torch.randint(0, 10, (32,))


def baseline():
    return _step(foreach=False)


def candidate():
    return _step(foreach=True)


EXPECTED = "right"
TRAIN = True
