import torch
from torch import nn
from typing import NamedTuple


class StepResult(NamedTuple):
    loss: torch.Tensor
    lr: float


def train_step(model, batch, optimizer):
    optimizer.zero_grad()
    loss = model(batch).pow(2).mean()
    loss.backward()
    optimizer.step()
    return StepResult(loss.detach(), optimizer.param_groups[0]["lr"])


def run(model, loader, optimizer):
    results = []
    for batch in loader:
        results.append(train_step(model, batch, optimizer))
    return results
