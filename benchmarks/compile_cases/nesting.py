"""Breaks in functions, methods, hooks and other files: the line that counts is the innermost of the user's."""

import torch
from elsewhere import decide
from torch import nn


def broken_helper(x):
    y = x + 1
    torch._dynamo.graph_break()  # break for in_a_helper, in_a_helper_called_twice, in_a_loop_over_a_helper
    return y * 2


def in_a_helper(x):  # breaks
    y = broken_helper(x.sin())
    return y.cos()


def in_a_helper_called_twice(x):  # breaks
    return broken_helper(broken_helper(x.sin()).cos()).tan()


def in_a_loop_over_a_helper(x):  # breaks
    for _ in range(3):
        x = broken_helper(x)
    return x


def in_a_closure(x):  # breaks
    def inner(y):
        z = y.sin()
        print("inner")  # break
        return z.cos()

    return inner(x * 2) * 3


def in_a_lambda(x):  # breaks
    last = lambda y: (y + 1, print("lambda"))[0]  # break
    return last(x * 2) * 3


def in_another_file(x):  # breaks
    return decide(x + 1) * 2


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def part(self, x):  # again for LoopOverLayers
        y = self.inner(x)
        print("part")  # break for Method, LoopOverLayers
        return y * 2

    def forward(self, x):  # again for LoopOverLayers
        return self.part(x)


class Method(nn.Module):  # breaks
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x):
        return self.layer(x.relu()).relu()


class LoopOverLayers(nn.Module):  # breaks
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Hook(nn.Module):  # breaks
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.inner.register_forward_hook(self.told)

    def told(self, module, args, given):
        print("hook")  # break
        return given * 2

    def forward(self, x):
        return self.inner(x).relu()
