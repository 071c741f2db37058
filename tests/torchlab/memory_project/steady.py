"""Training steps that keep tensors as they may: each factory returns a step whose memory levels off."""

import collections
import functools

import torch
from leaky import Training
from torch import nn


def bounded_queue():
    training = Training()
    recent = collections.deque(maxlen=3)

    def step():
        loss = training.loss()
        training.update(loss)
        recent.append(loss)

    return step


def long_bounded_queue():
    training = Training()
    recent = collections.deque(maxlen=1000)

    def step():
        batch = torch.randn(16, 32)
        recent.append(batch)
        training.update(training.model(batch).mean())

    return step


def cache_that_warms_up():
    training = Training()
    masks = {}
    count = 0

    def step():
        nonlocal count
        count += 1
        size = 8 + count % 5
        if size not in masks:
            masks[size] = torch.ones(size, 32)
        training.update(training.model(torch.randn(size, 32) * masks[size]).mean())

    return step


def optimizer_state():
    training = Training()
    training.optimizer = torch.optim.AdamW(training.model.parameters())
    return lambda: training.update(training.loss())


class Replay:
    def __init__(self, capacity):
        self.capacity = capacity
        self.transitions = []
        self.place = 0

    def push(self, tensor):
        if len(self.transitions) < self.capacity:
            self.transitions.append(tensor)
        else:
            self.transitions[self.place] = tensor
        self.place = (self.place + 1) % self.capacity


def _replaying(capacity):
    training, replay = Training(), Replay(capacity)

    def step():
        batch = torch.randn(16, 32)
        replay.push(batch)
        training.update(training.model(batch).mean())

    return step


def replay_that_is_full_soon():
    return _replaying(5)


def replay_that_is_full_late():
    return _replaying(500)


def gradient_accumulation():
    training = Training()
    count = 0

    def step():
        nonlocal count
        count += 1
        training.loss().backward()
        if count % 4 == 0:
            training.optimizer.step()
            training.optimizer.zero_grad()

    return step


def numbers():
    training = Training()
    losses = []

    def step():
        loss = training.loss()
        training.update(loss)
        losses.append(loss.item())

    return step


class Averaged:
    def __init__(self):
        self.training = Training()
        self.average = [parameter.detach().clone() for parameter in self.training.model.parameters()]
        self.last = None

    def step(self):
        loss = self.training.loss()
        self.training.update(loss)
        self.last = loss
        for mean, each in zip(self.average, self.training.model.parameters()):
            mean.lerp_(each.detach(), 0.1)


def moving_average():
    return Averaged().step


@functools.lru_cache(maxsize=64)
def mask(size):
    return torch.ones(size, size).tril()


def cache_that_is_hit():
    training = Training()
    count = 0

    def step():
        nonlocal count
        count += 1
        # Six sizes are asked for again and again.
        training.update(training.model(mask(26 + count % 6)[:16].sum() * torch.randn(16, 32)).mean())

    return step


def changing_sizes():
    training = Training()
    kept = {}

    def step():
        batch = torch.randn(int(torch.randint(4, 64, ())), 32)
        kept["last"] = batch
        training.update(training.model(batch).mean())

    return step


def plain_module():
    return nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 8))
