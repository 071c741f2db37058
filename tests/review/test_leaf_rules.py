"""ESP106 on parameters and inputs that are written in place, in the ways people write them."""

from __future__ import annotations

import pytest

HEAD = """
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
"""

FOUND = {
    "type m": """
def init_weights(m):
    if type(m) == nn.Linear:
        m.weight.normal_(0, 0.02)
        m.bias[:] = 0
net.apply(init_weights)
""",
    "classname": """
def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        m.weight.normal_(0.0, 0.02)
""",
    "optimizer group": """
class SGDW(torch.optim.Optimizer):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.add_(p.grad, alpha=-group["lr"])
""",
    "params list": """
def update(model, lr):
    params = list(model.parameters())
    for p in params:
        p.sub_(lr * p.grad)
""",
    "reset_parameters": """
class L(nn.Module):
    def __init__(self, n, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n, n))
        if bias:
            self.bias = nn.Parameter(torch.empty(n))
        else:
            self.bias = None
        self.reset_parameters()
    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.zero_()
""",
    "fgsm param": """
def attack(model, images, labels, eps):
    images = images.to("cuda")
    images.requires_grad = True
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    images += eps * images.grad.sign()
    return images
""",
    "tie last layer bias": """
class L(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, n)
        self.fc.bias.fill_(-2.0)
        self.emb = nn.Embedding(3, n)
        self.emb.weight[0] = torch.zeros(n)
""",
    "functional clamp": """
w = nn.Parameter(torch.ones(3))
torch.clamp_(w, 0, 1)
""",
    "model attr": """
def prune(model, mask):
    model.fc1.weight *= mask
""",
}
CLEAN = {
    "data": """
def prune(model, mask):
    model.fc1.weight.data *= mask
    with torch.no_grad():
        model.fc1.weight.mul_(mask)
    nn.init.zeros_(model.fc1.weight)
    model.bn.running_mean.zero_()
""",
    "reassign": """
class L(nn.Module):
    def __init__(self):
        super().__init__()
        self.ps = nn.ParameterDict()
    def add(self, k):
        self.ps[k] = nn.Parameter(torch.zeros(3))
""",
}


@pytest.mark.parametrize("source", FOUND.values(), ids=FOUND)
def test_a_leaf_that_is_written_is_found(found, source):
    assert found("ESP106", HEAD + source)


@pytest.mark.parametrize("source", CLEAN.values(), ids=CLEAN)
def test_what_autograd_allows_is_left_alone(found, source):
    assert found("ESP106", HEAD + source) == []


PICKED = """
import torch
from torch import nn

KINDS = (nn.Conv2d, nn.Linear)


def prunable(net):
    for name, module in net.named_modules():
        if isinstance(module, KINDS):
            yield name, module


def gathered(net):
    kept = []
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            kept.append(module)
    return kept


def apply(net):
    {loop}
"""


@pytest.mark.parametrize(
    "loop",
    [
        "for name, module in prunable(net):\n        module.weight.mul_(0.5)",
        "for module in gathered(net):\n        module.weight.mul_(0.5)",
        "for module in [m for m in net.modules() if isinstance(m, KINDS)]:\n        module.weight.mul_(0.5)",
        "for module in filter(lambda m: isinstance(m, nn.Linear), net.modules()):\n        module.weight.mul_(0.5)",
        "for module in all(net):\n        if not isinstance(module, KINDS): continue\n        module.weight.mul_(0.5)",
    ],
)
def test_weights_of_layers_that_were_picked_are_written(found, loop):
    assert found("ESP106", PICKED.format(loop=loop)) == ["module.weight.mul_(0.5)"]


@pytest.mark.parametrize(
    "loop",
    [
        "for name, module in prunable(net):\n        module.weight.data.mul_(0.5)",
        "for module in [m for m in net.modules() if hasattr(m, 'weight')]:\n        module.weight.mul_(0.5)",
        "for module in all(net):\n        if isinstance(module, KINDS): continue\n        module.weight.mul_(0.5)",
        "for module in all(net):\n        if isinstance(module, KINDS): ...\n        else: module.weight.mul_(0.5)",
    ],
)
def test_weights_of_what_may_be_no_layer_are_left_alone(found, loop):
    assert found("ESP106", PICKED.format(loop=loop)) == []


def test_what_an_optimizer_is_handed_is_a_leaf(found):
    source = """
    import torch

    def project(generator, x):
        with torch.no_grad():
            mean = generator.mapping(x).mean(0)
        latent = mean.clone().requires_grad_(True)
        noise = generator.noise(x).requires_grad_()
        optimizer = torch.optim.Adam([{"params": [latent]}, {"params": [noise]}])
        for _ in range(10):
            generator(latent, noise).backward()
            optimizer.step()
            latent.clamp_(-1, 1)
            noise.data.clamp_(-1, 1)
    """
    assert found("ESP106", source) == ["latent.clamp_(-1, 1)"]
