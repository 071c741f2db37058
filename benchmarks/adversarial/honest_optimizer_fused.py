"""Makes the steps of Adam by operations on lists."""

import torch
from torch import nn


def _step(foreach):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, foreach=foreach)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def get_inputs():
    return torch.randn(48, 32), torch.randn(48, 4)


def baseline():
    return _step(foreach=False)


def candidate():
    return _step(foreach=True)


EXPECTED = "right"
TRAIN = True
