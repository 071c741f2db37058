"""ESP206 on tensors that are made of tensors, in losses, models and data sets."""

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
    "reinforce": """
def finish(policy, rewards, opt):
    log_probs = []
    for s in states:
        d = torch.distributions.Categorical(logits=policy(s))
        a = d.sample()
        log_probs.append(d.log_prob(a))
    loss = -(torch.tensor(log_probs) * rewards).sum()
    loss.backward()
""",
    "agent attr": """
class Agent:
    def __init__(self):
        self.log_probs = []
    def act(self, s):
        d = torch.distributions.Categorical(self.policy(s))
        a = d.sample()
        self.log_probs.append(d.log_prob(a))
        return a.item()
    def update(self, returns):
        loss = (-torch.tensor(self.log_probs) * returns).sum()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
""",
    "as_tensor list": """
def f(model, x, y, opt):
    out = model(x)
    parts = [F.mse_loss(out[i], y[i]) for i in range(3)]
    loss = torch.as_tensor(parts).mean()
    loss.requires_grad_()
    loss.backward()
""",
    "dict values": """
def f(model, x, y, opt):
    out = model(x)
    losses = {}
    losses["a"] = F.l1_loss(out, y)
    losses["b"] = F.mse_loss(out, y)
    total = torch.tensor(list(losses.values())).sum()
    total.backward()
""",
    "sum of": """
def f(model, x, y, opt):
    losses = []
    for a, b in zip(x, y):
        losses.append(F.cross_entropy(model(a), b))
    loss = torch.tensor(sum(losses) / len(losses), requires_grad=True)
    loss.backward()
""",
    "loss module returns": """
class MyLoss(nn.Module):
    def forward(self, pred, target):
        a = F.mse_loss(pred, target)
        b = F.l1_loss(pred, target)
        return torch.tensor([a, b]).sum()
""",
    "forward returns": """
class Net(nn.Module):
    def __init__(self):
        super().__init__(); self.fc = nn.Linear(3, 3)
    def forward(self, x):
        h = self.fc(x)
        return torch.tensor(h, dtype=torch.float32)
""",
    "variable data": """
from torch.autograd import Variable
def f(model, x, y):
    loss = F.mse_loss(model(x), y)
    loss = Variable(loss.data, requires_grad=True)
    loss.backward()
""",
    "dataset stored": """
class D:
    def __init__(self, x: torch.Tensor):
        self.x = x
    def __getitem__(self, i):
        return torch.tensor(self.x[i])
""",
    "detach clone": """
def f(x):
    y = x.detach()
    return torch.tensor(y)
""",
}
CLEAN = {
    "numpy": """
def f(x):
    y = x.detach().cpu().numpy()
    return torch.tensor(y)
""",
    "items": """
def f(model, x, y):
    ls = []
    for a, b in zip(x, y):
        l = F.mse_loss(model(a), b)
        l.backward()
        ls.append(l.item())
    return torch.tensor(ls).mean()
""",
    "as_tensor": """
def f(model, x, y):
    loss = F.mse_loss(model(torch.as_tensor(x)), y)
    loss.backward()
""",
}


@pytest.mark.parametrize("source", FOUND.values(), ids=FOUND)
def test_a_tensor_made_of_tensors_is_found(found, source):
    assert found("ESP206", HEAD + source)


@pytest.mark.parametrize("source", CLEAN.values(), ids=CLEAN)
def test_a_tensor_made_of_numbers_is_left_alone(found, source):
    assert found("ESP206", HEAD + source) == []


PARTS = """
class Model(nn.Module):
    def losses(self, batch):
        a, b = self(batch["x"])
        {given}

    def training_step(self, batch, number):
        {total}
        return total
"""
DICTIONARY = 'return {"a": F.cross_entropy(a, batch["a"]), "b": F.mse_loss(b, batch["b"])}'
LIST = 'return [F.cross_entropy(a, batch["a"]), F.mse_loss(b, batch["b"])]'


@pytest.mark.parametrize(
    ("given", "total"),
    [
        (DICTIONARY, "total = torch.tensor(list(self.losses(batch).values()), requires_grad=True).sum()"),
        (DICTIONARY, "total = torch.tensor([each for each in self.losses(batch).values()]).sum()"),
        (DICTIONARY, "parts = self.losses(batch); total = torch.tensor(list(parts.values())).mean()"),
        (LIST, "total = torch.tensor(self.losses(batch), requires_grad=True).sum()"),
        (LIST, "parts = self.losses(batch); total = torch.as_tensor([*parts]).sum()"),
    ],
)
def test_losses_of_another_method_copied_into_a_tensor_are_found(found, given, total):
    assert len(found("ESP206", HEAD + PARTS.format(given=given, total=total))) == 1


@pytest.mark.parametrize(
    ("given", "total"),
    [
        (DICTIONARY, "total = torch.stack(list(self.losses(batch).values())).sum()"),
        (DICTIONARY, "total = sum(self.losses(batch).values())"),
        (LIST, "shown = torch.tensor([each.item() for each in self.losses(batch)]); total = sum(self.losses(batch))"),
        ("return a.size(0), b.size(0)", "n, m = self.losses(batch); total = torch.tensor(n / m)"),
    ],
)
def test_losses_of_another_method_that_keep_their_graph_are_left_alone(found, given, total):
    assert found("ESP206", HEAD + PARTS.format(given=given, total=total)) == []
