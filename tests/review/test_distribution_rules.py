"""Cases of ESP263: what distributions are given."""

from __future__ import annotations

import pytest

ACT = """
import torch
import torch.nn.functional as F
from torch import distributions as D, nn
from torch.distributions import Bernoulli, Categorical

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, state):
        scores = self.net(state)
        return {given}

def act(state):
    policy = Policy()
    out = policy(state)
    return {made}
"""


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("F.log_softmax(scores, dim=-1)", "Categorical(out)"),
        ("scores.log_softmax(-1)", "D.Categorical(probs=out)"),
        ("scores", "Categorical(out)"),
        ("F.softmax(scores, dim=-1)", "Categorical(logits=out)"),
        ("torch.sigmoid(scores)", "Bernoulli(logits=out)"),
        ("F.logsigmoid(scores)", "Bernoulli(out)"),
        ("scores.softmax(dim=-1)", "F.gumbel_softmax(out, hard=True)"),
        ("scores.log_softmax(dim=-1)", "torch.multinomial(out, 1)"),
    ],
)
def test_the_wrong_kind_of_numbers_is_reported(given, made, found):
    assert found("ESP263", ACT.format(given=given, made=made)) == [f"return {made}"]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("F.softmax(scores, dim=-1)", "Categorical(out)"),
        ("F.log_softmax(scores, dim=-1)", "Categorical(logits=out)"),
        ("scores", "Categorical(logits=out)"),
        ("scores.log_softmax(-1)", "Categorical(out.exp())"),
        ("torch.sigmoid(scores)", "torch.bernoulli(out)"),
        ("scores", "F.gumbel_softmax(out)"),
        ("scores.softmax(-1)", "torch.multinomial(out, 1)"),
        ("scores.abs()", "Categorical(out)"),
    ],
)
def test_the_kind_of_numbers_that_is_asked_for_is_right(given, made, found):
    assert found("ESP263", ACT.format(given=given, made=made)) == []
