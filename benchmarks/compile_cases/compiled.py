"""Code that is compiled by its owner already; no inductor runs for it here."""

import torch
from torch import nn


@torch.compile
def decorated(x):  # breaks
    y = x * 2
    torch._dynamo.graph_break()  # break
    return y + 1


@torch.compile(fullgraph=True, dynamic=True)
def decorated_to_be_one_graph(x):  # breaks
    y = x * 2
    print("midway")  # break
    return y + 1


@torch.compile
def compiled_part(x):
    return x.sin() + 1


def around_a_compiled_part(x):  # breaks
    y = x + 1
    print("midway")  # break
    return compiled_part(y) * 2


def compiled_module():  # clean
    return torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))


def module_compiled_in_place():  # clean
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    module.compile()
    return module
