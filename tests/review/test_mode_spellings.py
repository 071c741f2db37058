"""ESP102, ESP103 and ESP106 on code that names nothing an evaluation, and that freezes something else."""

from __future__ import annotations

import pytest

HEAD = """
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return self.drop(self.layer(x))


"""

FIT = """

def fit(loader, rest, n):
    net = Net()
    opt = torch.optim.Adam(net.parameters())
    for epoch in range(3):
        net.train()
        for x, y in loader:
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
        print(look(net, rest))
"""

MEASURED = {
    "added up by plus": """
def look(model, loader):
    agreed = total = 0
    with torch.no_grad():
        for x, y in loader:
            agreed = agreed + (model(x).squeeze(-1) > y).sum()
            total = total + len(y)
    return agreed / total
""",
    "added up in place": """
def look(model, loader):
    error = 0.0
    with torch.inference_mode():
        for x, y in loader:
            error += (model(x) - y).abs().sum()
    return error
""",
    "a mean of a comparison": """
@torch.no_grad()
def look(model, batch):
    return ((model(batch[0]) - batch[1]) ** 2).mean().sqrt()
""",
    "a comprehension": """
@torch.no_grad()
def look(model, loader):
    return torch.stack([F.mse_loss(model(x), y) for x, y in loader]).mean()
""",
}

GATHERED = {
    "targets of a step": """
def look(model, loader):
    return 0

@torch.no_grad()
def targets(model, x):
    return (model(x) - x.mean()).mean()

def more(model, loader, opt):
    for x, y in loader:
        loss = F.mse_loss(model(x), targets(model, x))
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
    "a sum of parameters": """
@torch.no_grad()
def look(model, loader):
    total = 0
    for p in model.parameters():
        total += p.abs().sum()
    return total
""",
}


@pytest.mark.parametrize("measure", MEASURED.values(), ids=MEASURED)
def test_an_evaluation_is_known_by_what_it_makes_of_the_outputs(found, measure):
    assert len(found("ESP102", HEAD + measure + FIT)) == 1


@pytest.mark.parametrize("measure", MEASURED.values(), ids=MEASURED)
def test_the_same_in_evaluation_mode_is_left_alone(found, measure):
    switched = FIT.replace("        print(look", "        net.eval()\n        print(look")
    assert found("ESP102", HEAD + measure + switched) == []


@pytest.mark.parametrize("code", GATHERED.values(), ids=GATHERED)
def test_what_measures_no_model_is_no_evaluation(found, code):
    assert found("ESP102", HEAD + code + FIT) == []


LOOK = """
def look(net, loader):
    net.eval()
    with torch.no_grad():
        return sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
"""


def test_an_evaluation_between_two_steps_leaves_the_rest_of_the_round_in_evaluation_mode(found):
    often = FIT.replace("            opt.step()\n        print", "            opt.step()\n            print")
    assert found("ESP103", HEAD + LOOK + often) == ["print(look(net, rest))"]


@pytest.mark.parametrize(
    "after", ["                break\n", "                net.train()\n", "                net.train(True)\n"]
)
def test_an_evaluation_that_ends_the_round_or_is_undone_is_left_alone(found, after):
    inside = f"            if n:\n                print(look(net, rest))\n{after}"
    assert found("ESP103", HEAD + LOOK + FIT.replace("        print(look(net, rest))\n", inside)) == []


PATCH = """
class Attack:
    def __init__(self, detector):
        self.detector = detector.requires_grad_(False)
        {made}

    def step(self, images):
        {write}
"""


@pytest.mark.parametrize(
    "made",
    [
        "self.patch = torch.rand(3, 4, requires_grad=True)",
        "self.patch = torch.zeros(3, 4).to('cuda').requires_grad_()",
        "self.patch = torch.full((3, 4), 0.5)\n        self.patch.requires_grad_(True)",
        "self.patch = torch.full((3, 4), 0.5)\n        self.patch.requires_grad = True",
        "self.patch = nn.Parameter(torch.rand(3, 4))",
    ],
)
@pytest.mark.parametrize(
    "write", ["self.patch.clamp_(0, 1)", "self.patch[:, :2] = 0", "self.patch -= 0.1", "torch.clamp_(self.patch, 0, 1)"]
)
def test_freezing_something_else_leaves_a_leaf_what_it_is(found, made, write):
    assert len(found("ESP106", HEAD + PATCH.format(made=made, write=write))) == 1


@pytest.mark.parametrize(
    "made",
    [
        "self.patch = nn.Parameter(torch.rand(3, 4))\n        self.patch.requires_grad = False",
        (
            "self.patch = nn.Parameter(torch.rand(3, 4))\n        for p in self.parameters():\n"
            "            p.requires_grad_(False)"
        ),
        "self.patch = torch.rand(3, 4)",
        "self.patch = nn.Parameter(torch.rand(3, 4), requires_grad=False)",
    ],
)
def test_what_is_frozen_itself_may_be_written(found, made):
    code = PATCH.replace("class Attack", "class Attack(nn.Module)").format(made=made, write="self.patch.clamp_(0, 1)")
    assert found("ESP106", HEAD + code) == []


def test_a_copy_that_asks_for_gradients_is_a_leaf(found):
    code = """
def attack(model, x, y):
    delta = torch.zeros_like(x).uniform_(-1, 1)
    delta.requires_grad = True
    image = x.clone().requires_grad_(True)
    F.cross_entropy(model(image + delta), y).backward()
    delta.clamp_(-1, 1)
    image += image.grad.sign()
"""
    assert found("ESP106", HEAD + code) == ["delta.clamp_(-1, 1)", "image += image.grad.sign()"]


def test_only_the_model_whose_parameters_are_frozen_counts(found):
    code = """
def sgd(net, teacher, lr):
    for q in teacher.parameters():
        q.requires_grad_(False)
    for p in net.parameters():
        p -= lr * p.grad
"""
    assert found("ESP106", HEAD + code) == ["p -= lr * p.grad"]
    assert found("ESP106", HEAD + code.replace("in teacher", "in net")) == []


TARGETS = """
def learn(online, target, opt, batch):
    obs, nxt, reward = batch
    q = online(obs).max(1).values
    {first}
    loss = F.smooth_l1_loss(q, {wanted})
    opt.zero_grad()
    loss.backward()
    opt.step()
    {last}

def main(batches):
    online, target = Net(), Net()
    opt = torch.optim.Adam(online.parameters())
    for batch in batches:
        online.train()
        learn(online, target, opt, batch)
"""
ASKED = "with torch.no_grad(): best = online(nxt).argmax(1, keepdim=True)"


def test_what_a_step_asks_of_a_model_before_its_own_backward_is_no_evaluation(found):
    wanted = "reward + target(nxt).gather(1, best).squeeze(1)"
    assert found("ESP102", HEAD + TARGETS.format(first=ASKED, wanted=wanted, last="pass")) == []


def test_what_a_model_says_after_the_step_is_an_evaluation(found):
    assert len(found("ESP102", HEAD + TARGETS.format(first="pass", wanted="reward", last=ASKED))) == 1
