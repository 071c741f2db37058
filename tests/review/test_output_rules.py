"""Cases of ESP128 and ESP129, and of ESP105 for values of actions: outputs on their way to a loss or a prediction."""

from __future__ import annotations

import pytest

STEP = """
import torch
import torch.nn.functional as F
from torch import nn

def step(model, x, y):
    crit = nn.{loss}()
    out = model(x)
    guess = {guess}
    return {made}
"""


@pytest.mark.parametrize(
    ("loss", "guess", "made"),
    [
        ("CrossEntropyLoss", "out.argmax(dim=1).float()", "crit(guess, y)"),
        ("CrossEntropyLoss", "torch.argmax(out, 1)", "F.cross_entropy(guess.float(), y)"),
        ("BCELoss", "(out > 0.5).float()", "crit(guess, y)"),
        ("BCELoss", "torch.round(out)", "crit(guess.squeeze(1), y)"),
        ("BCEWithLogitsLoss", "out.sigmoid().round()", "crit(guess, y)"),
    ],
)
def test_a_loss_of_choices_is_reported(loss, guess, made, found):
    assert found("ESP128", STEP.format(loss=loss, guess=guess, made=made)) == [f"return {made}"]


@pytest.mark.parametrize(
    ("guess", "made"),
    [
        ("out", "crit(guess, y)"),
        ("out.argmax(1)", "crit(out, y), guess"),
        ("y.argmax(1)", "crit(out, guess)"),
        ("out.softmax(1)", "(guess.argmax(1) == y).float().mean()"),
    ],
)
def test_a_loss_of_scores_is_right(guess, made, found):
    assert found("ESP128", STEP.format(loss="CrossEntropyLoss", guess=guess, made=made)) == []


PREDICT = """
import torch
import torch.nn.functional as F

def predict(model, x):
    {first}
    return {result}
"""


@pytest.mark.parametrize(
    ("first", "result"),
    [
        ("out = model(x).squeeze()", "out.argmax(dim=1)"),
        ("raw = model(x)\n    out = raw.squeeze()", "F.softmax(out, dim=1)"),
        ("out = torch.squeeze(model(x))", "torch.max(out, 1)[1]"),
        ("out = model(x).squeeze()", "out[:, 1]"),
        ("pass", "model(x).squeeze().softmax(1)"),
    ],
)
def test_an_output_squeezed_and_read_along_axis_1_is_reported(first, result, found):
    assert len(found("ESP129", PREDICT.format(first=first, result=result))) == 1


@pytest.mark.parametrize(
    ("first", "result"),
    [
        ("out = model(x).squeeze(-1)", "out.argmax(dim=1)"),
        ("out = model(x).squeeze()", "out.argmax(dim=-1)"),
        ("out = model(x).squeeze()\n    out = out.view(len(x), -1)", "out.argmax(1)"),
        ("out = model(x)", "x.squeeze().argmax(1)"),
        ("out = model(x).squeeze()", "out > 0.5"),
    ],
)
def test_a_named_axis_is_right(first, result, found):
    assert found("ESP129", PREDICT.format(first=first, result=result)) == []


LEARN = """
import torch
import torch.nn.functional as F

def learn(net, target, s, a, r, s2, done, gamma):
    q = {q}
    with torch.no_grad():
        best = {best}
        y = r + gamma * (1 - done) * best
    return {loss}
"""


@pytest.mark.parametrize(
    "q",
    [
        "net(s).gather(1, a.unsqueeze(1))",
        "torch.gather(net(s), 1, a.long().view(-1, 1))",
        "net(s).gather(1, a[:, None])",
    ],
)
@pytest.mark.parametrize("best", ["target(s2).max(1)[0]", "target(s2).max(dim=1).values", "torch.amax(target(s2), 1)"])
@pytest.mark.parametrize("loss", ["F.smooth_l1_loss(q, y)", "F.mse_loss(y, q)"])
def test_a_column_of_values_against_a_row_of_targets_is_reported(q, best, loss, found):
    assert found("ESP105", LEARN.format(q=q, best=best, loss=loss)) == [f"return {loss}"]


@pytest.mark.parametrize(
    ("q", "best", "loss"),
    [
        ("net(s).gather(1, a.unsqueeze(1)).squeeze(1)", "target(s2).max(1)[0]", "F.mse_loss(q, y)"),
        ("net(s).gather(1, a.unsqueeze(1))", "target(s2).max(1, keepdim=True)[0]", "F.mse_loss(q, y)"),
        ("net(s).gather(1, a.unsqueeze(1))", "target(s2).max(1)[0]", "F.mse_loss(q, y.unsqueeze(1))"),
        ("net(s).gather(1, a.unsqueeze(1))", "target(s2).max(1)[0]", "F.mse_loss(q.squeeze(), y)"),
        ("net(s).gather(1, a)", "target(s2).max(1)[0]", "F.mse_loss(q, y)"),
        ("net(s).max(1)[0]", "target(s2).max(1)[0]", "F.mse_loss(q, y)"),
    ],
)
def test_values_and_targets_of_one_shape_are_right(q, best, loss, found):
    assert found("ESP105", LEARN.format(q=q, best=best, loss=loss)) == []
