"""ESP219: raw scores, or logarithms, where a loss expects probabilities."""

from __future__ import annotations

import pytest

from esper_agents.review.engine import review, review_sources

NET = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = F.relu(self.body(x))
        x = self.head(x)
        return {result}


def train(loader, student, teacher):
    model = Net()
    net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1))
    criterion = {criterion}
    for x, y in loader:
        loss = {loss}
        loss.backward()
"""


@pytest.fixture
def found(tmp_path):
    def find(loss, *, result="x", criterion="nn.NLLLoss()"):
        source = NET.replace("{loss}", loss).replace("{result}", result).replace("{criterion}", criterion)
        (tmp_path / "train.py").write_text(source)
        report = review(tmp_path, [tmp_path], rules={"ESP219", "ESP201"})
        assert not report.unreadable
        return [claim.rule for claim in report.claims]

    return find


@pytest.mark.parametrize(
    ("loss", "criterion"),
    [
        ("F.nll_loss(model(x), y)", "None"),
        ("criterion(model(x), y)", "nn.NLLLoss()"),
        ("criterion(model(x).view(-1, 3), y)", "nn.NLLLoss(reduction='sum')"),
        ("criterion(net(x).squeeze(1), y)", "nn.BCELoss()"),
        ("F.binary_cross_entropy(net(x), y)", "None"),
        ("F.kl_div(model(x), F.softmax(teacher(x), 1))", "None"),
        ("F.kl_div(F.log_softmax(student(x), 1), F.log_softmax(teacher(x), 1))", "None"),
        ("criterion(F.log_softmax(student(x), 1), F.log_softmax(teacher(x), 1))", "nn.KLDivLoss(reduction='sum')"),
    ],
)
def test_scores_and_logarithms_where_probabilities_are_expected_are_reported(found, loss, criterion):
    assert found(loss, criterion=criterion) == ["ESP219"]


@pytest.mark.parametrize(
    ("loss", "criterion"),
    [
        ("F.cross_entropy(model(x), y)", "None"),
        ("F.nll_loss(model(x).log_softmax(1), y)", "None"),
        ("F.nll_loss(torch.log(F.softmax(model(x), 1)), y)", "None"),
        ("F.nll_loss(student(x), y)", "None"),
        ("criterion(torch.sigmoid(net(x)), y)", "nn.BCELoss()"),
        ("F.kl_div(F.log_softmax(student(x), 1), F.softmax(teacher(x), 1))", "None"),
        ("F.kl_div(F.log_softmax(student(x), 1), F.log_softmax(teacher(x), 1), log_target=True)", "None"),
        ("criterion(F.log_softmax(student(x), 1), F.log_softmax(teacher(x), 1))", "nn.KLDivLoss(log_target=True)"),
    ],
)
def test_what_a_loss_expects_is_not_reported(found, loss, criterion):
    assert found(loss, criterion=criterion) == []


def test_a_model_that_ends_with_log_softmax_is_right_for_nll_loss(found):
    assert found("criterion(model(x), y)", result="F.log_softmax(x, dim=1)") == []


def test_a_model_with_two_ways_out_is_not_reported(found):
    assert found("criterion(model(x), y)", result="F.log_softmax(x, dim=1) if self.training else x") == []


def test_a_swapped_divergence_is_one_diagnostic(found):
    assert found("F.kl_div(F.softmax(student(x), 1), F.log_softmax(teacher(x), 1))") == ["ESP201"]


@pytest.mark.parametrize(
    "loss", ["F.binary_cross_entropy(F.log_softmax(model(x), 1), y)", "criterion(F.logsigmoid(net(x)), y)"]
)
def test_logarithms_where_probabilities_are_expected_are_reported(found, loss):
    assert found(loss, criterion="nn.BCELoss()") == ["ESP201"]


def test_a_divergence_with_swapped_arguments_is_told_to_swap_them():
    source = NET.replace("{result}", "x").replace("{criterion}", "nn.KLDivLoss(reduction='batchmean')")
    source = source.replace("{loss}", "criterion(F.softmax(teacher(x), 1), F.log_softmax(student(x), 1))")
    (claim,) = review_sources({"train.py": source}, rules=["ESP201"]).claims
    assert "the target is given as logarithms" in claim.message
    assert claim.remedy.startswith("swap the two arguments")
