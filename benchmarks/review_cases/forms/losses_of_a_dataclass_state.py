import torch
from torch import nn
from dataclasses import dataclass, field


@dataclass
class State:
    step: int = 0
    loss_sum: float = 0.0
    losses: list = field(default_factory=list)


def advance(state, loss):
    state.step += 1
    state.losses.append(loss)  # expect: ESP301 @a


def train(model, loader, optimizer):
    state = State()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        advance(state, loss)  # expect: ESP301 @a
    return state
