"""Cases of ESP295: metrics that add up over all epochs."""

from __future__ import annotations

import pytest

METER = """
import torch


class Meter:
    def __init__(self, n=3):
        self.n = n
        self.reset()

    def reset(self):
        self.mat = torch.zeros(self.n, self.n)
        self.count = 0

    def update(self, pred, y):
        self.mat += torch.bincount(y * self.n + pred, minlength=self.n**2).view(self.n, self.n)
        self.count += len(y)

    def compute(self):
        return self.mat.diag().sum() / self.mat.sum()


"""
TRAINER = """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.metric = Meter()

    def validate(self, loader):
        {before}
        for x, y in loader:
            self.metric.update(self.model(x).argmax(1), y)
        {after}

    def fit(self, train, held_out, epochs):
        for epoch in range(epochs):
            {epoch}
            print(self.validate(held_out))
"""
LOOP = """
def fit(model, held_out, epochs):
    {outer}
    for epoch in range(epochs):
        {inner}
        for x, y in held_out:
            {update}
        {after}
"""
MADE, RESULT = "metric = Meter()", "print(metric.compute())"
UPDATE = "metric.update(model(x).argmax(1), y)"
SELF_UPDATE = "self.metric.update(self.model(x).argmax(1), y)"


def trainer(before="pass", after="return self.metric.compute()", epoch="pass"):
    return METER + TRAINER.format(before=before, after=after, epoch=epoch)


def loop(outer=MADE, inner="pass", update=UPDATE, after=RESULT):
    return METER + LOOP.format(outer=outer, inner=inner, update=update, after=after)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (trainer(), SELF_UPDATE),
        (trainer(before="self.model.eval()", after="score = self.metric.compute(); return score"), SELF_UPDATE),
        (loop(), UPDATE),
        (loop(after="scores.append(metric.compute())"), UPDATE),
        (loop().replace("update", "add"), UPDATE.replace("update", "add")),
        (loop().replace("compute", "value"), UPDATE),
    ],
)
def test_a_metric_that_nothing_resets_is_reported(found, source, line):
    assert found("ESP295", source) == [line]


def test_a_metric_of_another_file_is_followed(found):
    files = {
        "metrics.py": METER,
        "train.py": "from metrics import Meter\n" + LOOP.format(outer=MADE, inner="pass", update=UPDATE, after=RESULT),
    }
    assert found("ESP295", files) == [UPDATE]


@pytest.mark.parametrize(
    "source",
    [
        trainer(before="self.metric.reset()"),
        trainer(epoch="self.metric.reset()"),
        trainer(before="self.metric = Meter()"),
        trainer(after="score = self.metric.compute(); self.metric.reset(); return score"),
        trainer().replace("return self.mat.diag()", "mat, self.mat = self.mat, 0; return mat.diag()"),
        trainer().replace("for epoch in range(epochs):", "if epochs:"),
        trainer(epoch="for each in self.metrics: each.reset()"),
        loop(inner="metric.reset()"),
        loop(outer="pass", inner=MADE),
        loop(after=f"{RESULT}; metric.reset()"),
        loop(after="pass") + "    print(metric.compute())\n",
        loop().replace("self.mat +=", "self.mat =").replace("self.count +=", "self.count ="),
    ],
)
def test_metrics_that_start_anew_or_run_on_purpose_are_left_alone(found, source):
    assert found("ESP295", source) == []
