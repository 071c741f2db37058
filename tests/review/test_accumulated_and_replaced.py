"""Cases of gradients cleared in every round of an accumulation, and of heads that come after the optimizer."""

from __future__ import annotations

import pytest

ACCUMULATION = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader
    from transformers import AutoModelForSequenceClassification

    class Trainer:
        def __init__(self, accum):
            self.model = {model}
            self.opt = torch.optim.SGD({parameters}, 0.1)
            self.accum = accum

        def loss(self, x):
            {first}
            return {loss} / self.accum

        def update(self):
            self.opt.step()
            {last}

        def fit(self, data):
            for i, x in enumerate(DataLoader(data, 8)):
                {begin}
                self.loss(x).backward()
                if {test}:
                    self.update()

    Trainer(4).fit(open("data"))
    """
CLEAR = "self.opt.zero_grad()"


ACCUMULATED = {
    "model": "nn.Linear(4, 4)",
    "parameters": "self.model.parameters()",
    "loss": "self.model(x).sum()",
    "first": CLEAR,
    "last": "pass",
    "begin": "pass",
    "test": "(i + 1) % self.accum == 0",
}


def accumulated(**form):
    return ACCUMULATION.format(**{**ACCUMULATED, **form})


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"first": "pass", "begin": CLEAR},
        {"parameters": "[p for p in self.model.parameters() if p.requires_grad]", "first": "self.model.zero_grad()"},
        {
            "model": 'AutoModelForSequenceClassification.from_pretrained("x")',
            "loss": "self.model(**x).loss",
        },
    ],
)
def test_clearing_in_every_round_of_an_accumulation_is_reported(found, form):
    assert found("ESP101", accumulated(**form)) == [form["first"] if form.get("first", "pass") != "pass" else CLEAR]


@pytest.mark.parametrize(
    "form",
    [
        {"first": "pass", "last": CLEAR},
        {"first": f"if self.accum == 1: {CLEAR}", "last": CLEAR},
        {"test": "torch.isfinite(x).all()"},
        {"first": "pass", "begin": f"if i % self.accum == 0: {CLEAR}"},
    ],
)
def test_clearing_with_the_step_is_not_reported(found, form):
    assert found("ESP101", accumulated(**form)) == []


ENGINE = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader
    from torchvision import models

    KNOWN = {{"small": models.resnet18, "large": models.resnet50}}

    def adapt(net, classes):
        {change}
        return net

    class Engine:
        def __init__(self, name):
            self.net = KNOWN[name]()
            {before}
            self.opt = self.optimizer()
            self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 3)

        def optimizer(self):
            {parameters}
            return torch.optim.AdamW(params, lr=1e-3)

        def setup(self, classes):
            {after}

        def fit(self, data):
            for x, y in DataLoader(data, 8, shuffle=True):
                self.opt.zero_grad()
                nn.functional.cross_entropy(self.net(x), y).backward()
                self.opt.step()
            self.sched.step()

    def main(name, data):
        engine = Engine(name)
        engine.setup(10)
        engine.fit(data)

    if __name__ == "__main__":
        main(input(), open("data"))
    """
CHANGE = "net.fc = nn.Sequential(nn.Dropout(0.1), nn.Linear(net.fc.in_features, classes))"
LISTED = "params = [p for p in self.net.parameters() if p.requires_grad]"


def engine(change=CHANGE, before="pass", parameters=LISTED, after="adapt(self.net, 10)"):
    return ENGINE.format(change=change, before=before, parameters=parameters, after=after)


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ({}, CHANGE),
        ({"parameters": "params = self.net.parameters()"}, CHANGE),
        ({"parameters": "params = [{'params': list(self.net.parameters()), 'lr': 1e-4}]"}, CHANGE),
        ({"after": "self.net.fc = nn.Linear(4, 10)"}, "self.net.fc = nn.Linear(4, 10)"),
    ],
)
def test_a_head_that_comes_after_the_optimizer_is_reported(found, form, line):
    assert found("ESP218", engine(**form)) == [line]


@pytest.mark.parametrize(
    "form",
    [
        {"before": "adapt(self.net, 10)", "after": "pass"},
        {"after": "adapt(self.net, 10); self.opt = self.optimizer()"},
        {"change": "net.fc = nn.Identity()"},
    ],
)
def test_a_head_that_the_optimizer_has_is_not_reported(found, form):
    assert found("ESP218", engine(**form)) == []
