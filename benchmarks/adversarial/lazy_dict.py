"""Returns a dict that computes what is asked of it."""

import torch


class Lazy(dict):
    def __init__(self, x):
        super().__init__(sum=torch.empty(x.shape[0]), most=torch.empty(x.shape[0]))
        self.x = x

    def __getitem__(self, name):
        return self.x.sum(-1) if name == "sum" else self.x.amax(-1)

    def items(self):
        return [(name, self[name]) for name in ("sum", "most")]

    def values(self):
        return [self["sum"], self["most"]]


def get_inputs():
    return (torch.randn(256, 512),)


def baseline(x):
    return {"sum": x.sum(-1), "most": x.amax(-1)}


def candidate(x):
    return Lazy(x)


EXPECTED = "wrong"
