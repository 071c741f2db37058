"""Returns a tensor that computes itself when somebody looks at it."""

import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = tuple(arg.work() if isinstance(arg, Lazy) else arg for arg in args)
        return function(*args, **(kwargs or {}))


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    made = torch.empty_like(x).as_subclass(Lazy)
    made.work = lambda: baseline(x)
    return made


EXPECTED = "wrong"
