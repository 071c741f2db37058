"""Cases of ESP249 on frozen modules that are handed to the one that is trained: teachers."""

from __future__ import annotations

import pytest

TEACHER = """
import torch
from torch import nn
import torch.nn.functional as F


class Distiller(nn.Module):
    def __init__(self, student, teacher):
        super().__init__()
        self.student = student
        self.{name} = teacher
        {freeze}

    def forward(self, x):
        {run}
        return F.mse_loss(self.student(x), wanted)

    {more}


def fit(student, teacher, loader, optimizer):
    model = Distiller(student, teacher).to("cuda")
    for epoch in range(3):
        {train}
        for x in loader:
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
"""
FREEZE = "self.{name}.requires_grad_(False)"
LOOP = "for p in self.{name}.parameters(): p.requires_grad = False"
RUN = "with torch.no_grad(): wanted = self.{name}(x)"


def written(name="teacher", freeze=FREEZE, run=RUN, train="model.train()", more="pass"):
    parts = {"freeze": freeze.format(name=name), "run": run.format(name=name), "more": more.format(name=name)}
    return TEACHER.format(name=name, train=train.format(name=name), **parts)


@pytest.mark.parametrize("name", ["teacher", "reference", "t"])
@pytest.mark.parametrize("freeze", [FREEZE, LOOP])
@pytest.mark.parametrize("train", ["model.train()", "model.train(True)"])
def test_a_frozen_teacher_that_is_switched_to_training_is_reported(found, name, freeze, train):
    assert found("ESP249", written(name=name, freeze=freeze, train=train)) == [train]


@pytest.mark.parametrize(
    "source",
    [
        written(train="model.train(); model.{name}.eval()"),
        written(train="model.student.train()"),
        written(train="model.eval()"),
        written(freeze="pass"),
        written(run="wanted = self.{name}(x)"),
        written(run="self.{name}.eval()\n        with torch.no_grad(): wanted = self.{name}(x)"),
        written(more="def train(self, mode=True): return self"),
        written(more="def thaw(self): self.{name}.requires_grad_(True)"),
    ],
)
def test_a_teacher_that_stays_in_evaluation_or_is_trained_is_left_alone(found, source):
    assert found("ESP249", source) == []
