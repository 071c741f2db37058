"""Returns a lazy tensor whose class says that it is torch.Tensor."""

import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = tuple(arg.__dict__["work"]() if "work" in getattr(arg, "__dict__", {}) else arg for arg in args)
        return function(*args, **(kwargs or {}))

    __class__ = torch.Tensor


Lazy.__name__ = Lazy.__qualname__ = "Tensor"
Lazy.__module__ = "torch"


def get_inputs():
    return (torch.randn(64, 256),)


def baseline(x):
    return torch.tanh(x) * torch.sigmoid(x)


def candidate(x):
    made = torch.Tensor._make_subclass(Lazy, torch.empty_like(x))
    made.__dict__["work"] = lambda: baseline(x)
    return made


EXPECTED = "wrong"
