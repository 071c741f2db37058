"""Exponential moving average of parameters, multi-tensor."""
import copy
from contextlib import contextmanager

import torch


class ParamEMA:
    def __init__(self, model, decay=0.999, warmup=True):
        self.decay, self.warmup, self.updates = decay, warmup, 0
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    def _current(self):
        if not self.warmup:
            return self.decay
        return min(self.decay, (1 + self.updates) / (10 + self.updates))

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        mine = list(self.model.parameters())
        theirs = list(model.parameters())
        torch._foreach_lerp_(mine, theirs, 1.0 - self._current())
        for b, s in zip(self.model.buffers(), model.buffers()):
            b.copy_(s)

    def state_dict(self):
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]


@contextmanager
def evaluating(model):
    was = model.training
    model.eval()
    try:
        yield model
    finally:
        model.train(was)
