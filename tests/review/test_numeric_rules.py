"""ESP201 to ESP212: what goes wrong without an error."""

from __future__ import annotations

import pytest

IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"

WRONG_LOSSES = {
    "inline": "loss = F.cross_entropy(F.softmax(model(x), dim=1), y)",
    "a method": "loss = F.cross_entropy(model(x).softmax(-1), y)",
    "a module at once": "loss = nn.CrossEntropyLoss()(torch.softmax(model(x), 1), y)",
    "a criterion": "criterion = nn.CrossEntropyLoss()\np = F.softmax(model(x), dim=1)\nloss = criterion(p, y)",
    "reshaped": "p = F.softmax(model(x), dim=1)\nloss = F.cross_entropy(p.view(-1, 10), y)",
    "a keyword": "loss = F.cross_entropy(input=F.softmax(model(x), dim=1), target=y)",
    "a sigmoid before the logits loss": "loss = F.binary_cross_entropy_with_logits(torch.sigmoid(model(x)), y)",
    "a softmax before nll_loss": "loss = F.nll_loss(F.softmax(model(x), dim=1), y)",
    "a layer": "act = nn.Softmax(dim=1)\nloss = F.cross_entropy(act(model(x)), y)",
}
RIGHT_LOSSES = {
    "scores": "loss = F.cross_entropy(model(x), y)",
    "nll_loss after log_softmax": "loss = F.nll_loss(F.log_softmax(model(x), dim=1), y)",
    "binary_cross_entropy after a sigmoid": "loss = F.binary_cross_entropy(torch.sigmoid(model(x)), y)",
    "soft targets": "loss = F.cross_entropy(model(x), F.softmax(teacher(x), dim=1))",
    "probabilities for something else": "p = F.softmax(model(x), dim=1)\nloss = F.cross_entropy(model(x), y)",
    "a name used again": "p = F.softmax(a, dim=1)\np = model(x)\nloss = F.cross_entropy(p, y)",
    "kl_div": "loss = F.kl_div(F.log_softmax(a, dim=1), F.softmax(b, dim=1))",
    "a method of one's own": "loss = F.cross_entropy(self.softmax(x), y)",
    "the logarithm after the softmax": "loss = F.nll_loss(torch.log(F.softmax(model(x), dim=1)), y)",
}


@pytest.mark.parametrize("source", WRONG_LOSSES.values(), ids=WRONG_LOSSES)
def test_probabilities_before_a_loss_that_wants_scores_are_found(found, source):
    assert len(found("ESP201", IMPORTS + source)) == 1


@pytest.mark.parametrize("source", RIGHT_LOSSES.values(), ids=RIGHT_LOSSES)
def test_losses_that_get_what_they_expect_are_left_alone(found, source):
    assert found("ESP201", IMPORTS + source) == []


MODEL = """
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return {result}
"""
USE = """
import torch.nn as nn
from model import Net

def fit(net, criterion, loader):
    for x, y in loader:
        loss = criterion(net(x), y)

net = Net().to("cpu")
fit(net, nn.CrossEntropyLoss(), loader)
"""


def test_a_softmax_at_the_end_of_a_model_in_another_file_is_found(found):
    sources = {"model.py": MODEL.format(result="F.softmax(self.head(x), dim=1)"), "train.py": USE}
    assert found("ESP201", sources) == ["loss = criterion(net(x), y)"]
    sources["model.py"] = MODEL.format(result="self.head(x)")
    assert found("ESP201", sources) == []


def test_a_softmax_that_ends_a_sequential_is_found(found):
    model = MODEL.replace("nn.Linear(8, 4)", "nn.Sequential(nn.Linear(8, 4), nn.Softmax(dim=1))")
    sources = {"model.py": model.format(result="self.head(x)"), "train.py": USE}
    assert found("ESP201", sources) == ["loss = criterion(net(x), y)"]


def test_a_model_that_returns_scores_in_training_is_left_alone(found):
    both = "self.head(x) if self.training else F.softmax(self.head(x), dim=1)"
    assert found("ESP201", {"model.py": MODEL.format(result=both), "train.py": USE}) == []


@pytest.mark.parametrize("call", ["F.softmax(x)", "F.log_softmax(x)", "nn.Softmax()", "nn.LogSoftmax()"])
def test_a_softmax_without_an_axis_is_found(found, call):
    assert found("ESP202", f"{IMPORTS}y = {call}") == [f"y = {call}"]


@pytest.mark.parametrize(
    "call", ["F.softmax(x, 1)", "F.softmax(x, dim=0)", "nn.Softmax(1)", "nn.Softmax(dim=-1)", "F.softmax(x, **options)"]
)
def test_a_softmax_with_an_axis_is_left_alone(found, call):
    assert found("ESP202", f"{IMPORTS}y = {call}") == []


def test_a_softmax_over_the_batch_of_a_linear_layer_is_found(found):
    source = MODEL.format(result="F.softmax(self.head(x), dim=0)")
    assert found("ESP202", source) == ["return F.softmax(self.head(x), dim=0)"]
    assert found("ESP202", source.replace("dim=0", "dim=-1")) == []


@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("model.load_state_dict(state, strict=False)", 1),
        ("model.load_state_dict(state, False)", 1),
        ("_ = model.load_state_dict(state, strict=False)", 1),
        ("model.load_state_dict(state)", 0),
        ("model.load_state_dict(state, strict=True)", 0),
        ("model.load_state_dict(state, strict=strict)", 0),
        ("report = model.load_state_dict(state, strict=False)", 0),
        ("print(model.load_state_dict(state, strict=False))", 0),
        ("return_value = [model.load_state_dict(state, strict=False)]", 0),
    ],
)
def test_a_loose_load_whose_report_nobody_reads_is_found(found, statement, count):
    assert len(found("ESP203", statement)) == count


SAMPLER = """
from torch.utils.data import DistributedSampler
{more}
def fit(model, data, optimizer):
    sampler = DistributedSampler(data{options})
    for epoch in range(10):
        for x in sampler:
            model(x).backward()
            {inside}
"""


@pytest.mark.parametrize(
    ("options", "inside", "more", "count"),
    [
        ("", "pass", "", 1),
        (", shuffle=True", "pass", "", 1),
        (", shuffle=False", "pass", "", 0),
        # Nobody tells any sampler of the project the epoch: where it shuffles, its order stays.
        (", shuffle=shuffle", "pass", "", 1),
        ("", "sampler.set_epoch(epoch)", "", 0),
        ("", "pass", "import accelerate", 0),
    ],
)
def test_a_sampler_that_never_learns_the_epoch_is_found(found, options, inside, more, count):
    assert len(found("ESP204", SAMPLER.format(options=options, inside=inside, more=more))) == count


TOLD = SAMPLER.format(options="", inside="sampler.set_epoch(epoch)", more="")
UNTOLD = SAMPLER.format(options="", inside="pass", more="")
FACTORY = """
from torch.utils.data import DataLoader, DistributedSampler

def loader_of(data):
    deck = DistributedSampler(data)
    return DataLoader(data, sampler=deck)
"""
RUN = """
from cards import loader_of

def fit(model, data):
    cards = loader_of(data)
    for epoch in range(10):
        {tell}
        for x in cards:
            model(x).backward()
"""
TWO = """
from torch.utils.data import DistributedSampler

def fit(model, data, more):
    deck, pile = DistributedSampler(data), DistributedSampler(more)
    for epoch in range(10):
        deck.set_epoch(epoch)
        {tell}
        for x in deck:
            model(x).backward()
        for x in pile:
            model(x).backward()
"""


def test_another_program_that_tells_its_sampler_the_epoch_silences_nothing(found):
    assert found("ESP204", {"one.py": TOLD, "two.py": UNTOLD}) == ["sampler = DistributedSampler(data)"]
    assert found("ESP204", {"one.py": TOLD, "two.py": TOLD}) == []


def test_each_program_that_uses_a_sampler_tells_it_the_epoch(found):
    told, untold = RUN.format(tell="cards.sampler.set_epoch(epoch)"), RUN.format(tell="pass")
    assert found("ESP204", {"cards.py": FACTORY, "one.py": told}) == []
    assert found("ESP204", {"cards.py": FACTORY, "one.py": told, "two.py": untold}) == [
        "deck = DistributedSampler(data)"
    ]
    assert found("ESP204", {"cards.py": FACTORY, "one.py": untold}) == ["deck = DistributedSampler(data)"]


def test_a_program_that_makes_no_use_of_a_sampler_need_not_tell_it(found):
    other = UNTOLD.replace("import DistributedSampler", "import Sampler as DistributedSampler") + "import cards\n"
    told = RUN.format(tell="cards.sampler.set_epoch(epoch)")
    assert found("ESP204", {"cards.py": FACTORY, "one.py": told, "two.py": other}) == []


def test_a_sampler_is_not_told_by_what_its_neighbour_is_told(found):
    assert len(found("ESP204", TWO.format(tell="pass"))) == 1
    assert found("ESP204", TWO.format(tell="pile.set_epoch(epoch)")) == []


def test_an_object_that_nothing_explains_may_be_the_sampler_of_its_own_program_only(found):
    hook = "def before_epoch(loader, epoch):\n    loader.sampler.set_epoch(epoch)\n"
    assert found("ESP204", {"train.py": f"import hooks\n{UNTOLD}", "hooks.py": hook}) == []
    assert len(found("ESP204", {"train.py": UNTOLD, "hooks.py": hook})) == 1


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("torch.log(F.softmax(x, dim=-1))", 1),
        ("F.softmax(x, dim=-1).log()", 1),
        ("torch.log(torch.sigmoid(x))", 1),
        ("torch.log(F.softmax(x, dim=-1) + 1e-8)", 0),
        ("torch.log(F.softmax(x, dim=-1).clamp(min=1e-8))", 0),
        ("torch.log(x)", 0),
        ("torch.log1p(F.softmax(x, dim=-1))", 0),
        ("F.log_softmax(x, dim=-1)", 0),
        ("logger.log(F.softmax(x, dim=-1))", 0),
        ("math.log(p)", 0),
    ],
)
def test_the_logarithm_of_a_probability_is_found(found, expression, count):
    assert len(found("ESP210", f"{IMPORTS}y = {expression}")) == count


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("(x - x.mean()) / x.std()", 1),
        ("x / x.norm(dim=-1, keepdim=True)", 1),
        ("x / torch.norm(x)", 1),
        ("x / x.sum()", 1),
        ("(x - x.mean()) / (x.std() + 1e-8)", 0),
        ("x / x.norm().clamp_min(1e-8)", 0),
        ("x.exp() / x.exp().sum()", 0),
        ("F.softmax(x, dim=0) / F.softmax(x, dim=0).sum()", 0),
        ("(x * mask).sum() / mask.sum()", 0),
        ("x / 2", 0),
        ("y / x.norm()", 0),
    ],
)
def test_a_division_by_what_may_be_zero_is_found(found, expression, count):
    source = f"{IMPORTS}def scale(x, y, mask):\n    return {expression}\n"
    assert len(found("ESP211", source)) == count


def test_a_divisor_that_was_tested_or_floored_is_left_alone(found):
    tested = f"{IMPORTS}def scale(x):\n    if x.norm() > 0:\n        return x / x.norm()\n"
    floored = f"{IMPORTS}def scale(x):\n    x = x.clamp(min=1e-6)\n    return x / x.sum()\n"
    assert found("ESP211", tested) == []
    assert found("ESP211", floored) == []


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("torch.sqrt(F.mse_loss(a, b))", 1),
        ("((a - b) ** 2).sum(-1).sqrt()", 1),
        ("torch.sqrt(torch.sum((a - b).pow(2)))", 1),
        ("torch.sqrt(F.mse_loss(a, b) + 1e-8)", 0),
        ("torch.sqrt(((a - b) ** 2).sum(-1) + 1e-12)", 0),
        ("torch.linalg.vector_norm(a - b)", 0),
        ("torch.sqrt(a)", 0),
        ("math.sqrt(a)", 0),
    ],
)
def test_a_root_whose_gradient_is_nan_at_zero_is_found(found, expression, count):
    assert len(found("ESP212", f"{IMPORTS}def distance_loss(a, b):\n    return {expression}\n")) == count


def test_a_root_that_is_only_a_metric_is_left_alone(found):
    metric = f"{IMPORTS}def rmse(a, b):\n    return torch.sqrt(F.mse_loss(a, b))\n"
    unused = f"{IMPORTS}@torch.no_grad()\ndef loss(a, b):\n    return torch.sqrt(F.mse_loss(a, b))\n"
    assert found("ESP212", metric) == []
    assert found("ESP212", unused) == []
